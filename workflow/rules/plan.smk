# config -> PLAN: validated before anything starts; plain data that the other rules look things up in.
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# This checkout's package, for the scripts of jobs too, whichever environment they run in.
os.environ.update(PYTHONPATH=f"{workflow.basedir}/src")
sys.path.insert(0, f"{workflow.basedir}/src")

from ddlbench import modules
from ddlbench.errors import DdlbenchError, nearest
from ddlbench.plan import load
from ddlbench.runtime.invocation import announce, clear_locks_of_the_dead, stamp
from ddlbench.runtime.orphans import remove_orphans
from ddlbench.runtime.placement import check_placements

sources = dict.fromkeys(map(os.path.relpath, [*workflow.configfiles, *workflow.overwrite_configfiles]))
try:
    PLAN = load(config, Path(workflow.basedir), source=" with ".join(map(str, sources)))
except DdlbenchError as error:
    raise WorkflowError(str(error))


def no_such_figure(name):
    """Refuse a target that looks like a figure's name, with the nearest that is one."""
    print(f"there is no figure {name!r}{nearest(name, PLAN.figures)}", file=sys.stderr)
    sys.exit(2)


if workflow.is_main_process and not workflow.dryrun:
    clear_locks_of_the_dead()
    remove_orphans(PLAN)

RESULTS = PLAN.settings["results"]
INVOCATION = f"{RESULTS}/.invocation.json"
# A file that `--config fresh=true` renews: whatever was measured before it is measured again.
FRESH = stamp(
    f"{RESULTS}/.fresh", renew=PLAN.settings["fresh"] and workflow.is_main_process and not workflow.dryrun
)


wildcard_constraints:
    study="|".join(PLAN.studies) or "none",
    figure="|".join(PLAN.figures) or "none",
    framework="|".join(sorted(PLAN.settings["environments"])),
    dataset="[a-z0-9]+-[0-9]+x[0-9]+x[0-9]+",
