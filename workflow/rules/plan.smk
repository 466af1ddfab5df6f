# config -> PLAN: validated before anything starts; plain data that the other rules look things up in.
import os
import sys
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError

# This checkout's package, for the scripts of jobs too, whichever environment they run in.
os.environ.update(PYTHONPATH=f"{workflow.basedir}/src")
sys.path.insert(0, f"{workflow.basedir}/src")

from ddlbench.code.purposes import code_for
from ddlbench.errors import DdlbenchError, nearest
from ddlbench.plan import load, overridden, requested
from ddlbench.plan.catalogue import NAMES
from ddlbench.plan.config_files import configuration
from ddlbench.plan.request import OF_THE_PLAN
from ddlbench.plan.settings import as_params
from ddlbench.containers.base_image import PACKAGES
from ddlbench.environments.failed_environments import failures, forget
from ddlbench.launch.gpus import planned_gpus
from ddlbench.containers.image_files import forget_vanished
from ddlbench.sweep.invocation import announce, clear_locks_of_the_dead, stamp
from ddlbench.hosts.group_on_hosts import is_on_nodes
from ddlbench.environments.materials import description_files, files_of
from ddlbench.sweep.orphans import remove_orphans
from ddlbench.cluster.partitions import Request, check_requests, partitions
from ddlbench.sweep.placement import check_placements, code_of
from ddlbench.environments.wheels import recipe_files

# A profile whose jobs go to SLURM says so by its default resources; what runs in a SLURM job knows it from the job.
DEFAULTS = {key: default.raw for key, default in (workflow.resource_settings.default_resources or {}).items()}
SCHEDULER = (
    "slurm" if "SLURM_JOB_ID" in os.environ or any(key.startswith("slurm_") for key in DEFAULTS) else None
)

GPUS = planned_gpus(is_planning=workflow.is_main_process)

# The configuration is data: no directive reads it, as Snakemake's parser runs code that stands in a file.
given = workflow.config_settings
try:
    settings, sources = configuration(given.configfiles, given.config, root=Path(workflow.basedir))
    config.clear()
    config.update(settings if isinstance(settings, dict) else {})
    PLAN = load(
        settings,
        Path(workflow.basedir),
        source=" with ".join(map(os.path.relpath, sources)),
        scheduler=SCHEDULER,
        gpus=GPUS,
    )
except DdlbenchError as error:
    raise WorkflowError(str(error))


def no_such_figure(name):
    """Refuse a target that looks like a figure's name, with the nearest that is one."""
    print(f"there is no figure {name!r}{nearest(name, PLAN.figures)}", file=sys.stderr)
    sys.exit(2)


def known_probe(table):
    """Refuse a probe that the configuration does not ask for; gives nothing to wait for."""
    known = {name for figure in PLAN.figures.values() for name in figure.tables} | {
        each.table for each in PLAN.probes
    }
    if table not in known:
        print(
            f"there is no probe {table!r}{nearest(table, known)}; `probes` in the configuration names them",
            file=sys.stderr,
        )
        sys.exit(2)
    return []


def known_dataset(wildcards):
    """Refuse a data set that no point of the configuration trains with; gives nothing to wait for."""
    known = {point.dataset_key for run in PLAN.runs for point in run.points}
    known |= {fault.point.dataset_key for fault in PLAN.faults.values()}
    if wildcards.dataset not in known:
        name = wildcards.dataset
        print(
            f"no point of the configuration has the data set {name!r}{nearest(name, known)}", file=sys.stderr
        )
        sys.exit(2)
    return []


def described_by(points):
    """The files that describe what workers of these points run in."""
    return [str(file) for files in description_files(points).values() for file in files]


def gpus_for(run):
    """How many GPUs this machine has, where that matters to a run: where there are others, its gaps are others."""
    return GPUS if run.points[0].devices == "gpu" else 0


def requirements(wildcards):
    """The locked requirements of an environment."""
    return PLAN.settings.environments[wildcards.environment].requirements


def request_for(key):
    """How much of a resource a run between machines asks SLURM for; where the plan does not say, what the profile does."""
    return lambda wildcards: requested(PLAN, PLAN.run(wildcards.run)).get(key, DEFAULTS.get(key))


def submitted(dag):
    """The jobs that are to be done by SLURM."""
    return [job for job in dag.needrun_jobs() if not job.is_local]


def request_of(job):
    """What a job will ask SLURM for."""
    asked = {key: value for key, value in job.resources.items() if value != "<TBD>"}
    return Request(
        " ".join([job.rule.name, *job.wildcards]),
        partition=asked.get("slurm_partition"),
        nodes=asked.get("nodes", 1),
        cpus=asked.get("cpus_per_task", job.threads),
        memory_mb=asked.get("mem_mb", 0),
        gres=asked.get("gres", ""),
        runtime_min=asked.get("runtime"),
    )


def environments_of_the_plan():
    """The environments of all frameworks that the plan measures."""
    return sorted({point.environment for run in PLAN.runs for point in run.points})


if workflow.is_main_process and not workflow.dryrun:
    clear_locks_of_the_dead()
    forget()
    for told in forget_vanished():
        print(told, file=sys.stderr)
    remove_orphans(PLAN, retried=PLAN.figures.keys() & set(sys.argv) or PLAN.figures)

RESULTS = PLAN.settings.results
INVOCATION = f"{RESULTS}/.invocation.json"
# A file that `--config fresh=true` renews: whatever was measured before it is measured again.
FRESH = stamp(
    f"{RESULTS}/.fresh", renew=PLAN.settings.fresh and workflow.is_main_process and not workflow.dryrun
)


wildcard_constraints:
    study="|".join(PLAN.studies) or "none",
    figure="|".join(name for name, figure in PLAN.figures.items() if figure.kind != "telemetry") or "none",
    telemetry="|".join(name for name, figure in PLAN.figures.items() if figure.kind == "telemetry") or "none",
    fault="|".join(PLAN.faults) or "none",
    link="|".join(PLAN.links),
    dilation="[0-9.]+",
    hosts="[0-9]+",
    transport="tcp|gloo|nccl|ucx",
    environment="|".join(sorted(PLAN.settings.environments)),
    runtime="docker|apptainer",
    dataset="[a-z0-9]+-[0-9]+x[0-9]+x[0-9]+",
