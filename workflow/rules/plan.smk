# config -> PLAN: validated before anything starts; plain data that the other rules look things up in.
import os
import sys
from dataclasses import asdict
from datetime import date
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

# This checkout's package, for the scripts of jobs too, whichever environment they run in.
os.environ.update(PYTHONPATH=f"{workflow.basedir}/src")
sys.path[:0] = [f"{workflow.basedir}/src", f"{workflow.basedir}/workflow"]

import snakemake_insides as insides

from ddlbench.code.purposes import code_for
from ddlbench.errors import DdlbenchError, nearest
from ddlbench.files import sha256_json
from ddlbench.plan import load, overridden, requested
from ddlbench.plan.catalogue import NAMES, PROBE_TRANSPORTS
from ddlbench.plan.config_files import configuration
from ddlbench.runs.order import FIRST, priorities
from ddlbench.plan.request import OF_THE_PLAN, planned_gpus
from ddlbench.plan.settings import as_params
from ddlbench.containers.base_image import PACKAGES
from ddlbench.environments.failed_environments import could_not_be_made, failures, has_lost_its_interpreter
from ddlbench.launch.gpus import gpus_here
from ddlbench.containers.image_files import has_vanished
from ddlbench.recommender.active.options import options_of
from ddlbench.runs.file_locks import hold
from ddlbench.runs.invocation import announce, settle, stamp, stamp_of
from ddlbench.runs.machine_lock import note_allocation
from ddlbench.runs.owner import check_owner, claim, owner
from ddlbench.plan.catalogue import BETWEEN_MACHINES
from ddlbench.environments.materials import all_description_files, files_of
from ddlbench.runs.mending import is_damaged, set_aside_damage
from ddlbench.runs.outdated import has_lost, is_older_than, is_unfinished
from ddlbench.cluster.partitions import ALONE, Request, check_requests, partitions
from ddlbench.runs.placement import check_placements, code_of
from ddlbench.environments.wheels import recipe_files

# A profile whose jobs go to SLURM says so by its default resources; what runs in a SLURM job knows it from the job.
SUBMITTING = any(key.startswith("slurm_") for key in insides.default_resources(workflow))
SCHEDULER = "slurm" if SUBMITTING or "SLURM_JOB_ID" in os.environ else None

PLANNING = insides.plans_for_jobs(workflow)
if PLANNING:
    insides.show_jobs_of_dry_run(workflow)
    note_allocation()
if PLANNING and SUBMITTING:
    insides.ignore_cores(workflow)
insides.take_no_locks()

if PLANNING and (cores := insides.given_cores(workflow)) is not None and cores < 1:
    raise WorkflowError(f"--cores {cores}: at least one core is needed")

GPUS = planned_gpus(len(gpus_here()) if PLANNING else None)

# The configuration is data: no directive reads it, as Snakemake's parser runs code that stands in a file.
try:
    CONFIGURATION = configuration(*insides.given_configuration(workflow), root=Path(workflow.basedir))
    config.clear()
    config.update(CONFIGURATION.settings if isinstance(CONFIGURATION.settings, dict) else {})
    PLAN = load(CONFIGURATION, Path(workflow.basedir), scheduler=SCHEDULER, gpus=GPUS)
    OWNER = owner(CONFIGURATION, Path(workflow.basedir))
    if PLANNING:
        check_owner(Path(PLAN.settings.own_results), OWNER, Path(workflow.basedir))
        if PLAN.settings.name:
            print(f"Results of this configuration: {PLAN.settings.own_results}", file=sys.stderr)
        for name in sorted(PLAN.figures_without_points.intersection(PLAN.settings.default_figures)):
            print(PLAN.no_figure(name), file=sys.stderr)
except DdlbenchError as error:
    raise WorkflowError(str(error))


def refused(why):
    """Refuse a target, and say why."""
    print(why, file=sys.stderr)
    sys.exit(2)


def known(what, name, names):
    """Refuse a target that nothing asks for, with the nearest that something does; gives nothing to wait for."""
    if name not in names:
        refused(f"in this configuration there is no {what} {name!r}{nearest(name, names)}")
    return []


@cache
def options():
    """The points that the question of `recommend` leaves open, with the ids of their runs."""
    try:
        return options_of(PLAN, PLAN.settings.recommend)
    except DdlbenchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


@cache
def goal():
    """What `recommend` wants of these points; its price is looked up."""
    from ddlbench.recommender.active.goal import goal_of  # it takes a second, which no other target needs

    try:
        return goal_of(PLAN.settings.recommend, list(options()), date.today())[0]
    except DdlbenchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def described_by(points):
    """The files that describe what workers of these points run in."""
    return [str(file) for file in all_description_files(points)]


def manifests_of(figure):
    """The manifests of the runs that a figure is made from."""
    return [f"{RESULTS}/runs/{run.study}/{run.id}.json" for run in PLAN.runs_of(figure)]


def tables_of(figure):
    """The tables that a figure is drawn from."""
    return [f"{RESULTS}/{table}" for table in figure.tables]


def tables_of_points(figures=()):
    """The tables of points, a figure's each: of these figures, and of all others that have been made."""
    own = {name: f"{RESULTS}/tables/{name}.csv" for name in PLAN.figures}
    return sorted(
        table
        for name, table in own.items()
        if tables_of(PLAN.figures[name]) == [table] and (name in figures or Path(table).exists())
    )


@cache
def order_of_measuring():
    """The priority of each run, by its id."""
    return priorities(PLAN)


def reported_of(run):
    """What the manifest of a run tells those who make tables of it."""
    return PLAN.grid(run.study, run.grid).reported


def gpus_for(run):
    """How many GPUs this machine has, where that matters to a run: where there are others, its gaps are others."""
    return GPUS if run.points[0].devices == "gpu" else 0


def requirements(wildcards):
    """The locked requirements of an environment."""
    return PLAN.settings.environments[wildcards.environment].requirements


def request_for(key):
    """How much of a resource a run between machines asks SLURM for; where the plan does not say, what the profile does."""

    def request(wildcards, **of_the_job):
        asked = requested(PLAN, PLAN.run(wildcards.run))
        return asked[key] if key in asked else insides.default_of(workflow, key, wildcards, **of_the_job)

    return request


def alone(wildcards, **of_the_job):
    """The profile's further options of sbatch for a job that measures, which has its nodes for itself whatever they are."""
    extra = insides.default_of(workflow, "slurm_extra", wildcards, **of_the_job)
    return f"{extra} {ALONE}" if extra else ALONE


def environments_of_the_plan():
    """The environments of all frameworks that the plan measures."""
    return sorted({point.environment for run in PLAN.runs for point in run.points})


RESULTS = PLAN.settings.own_results
LOGS = PLAN.settings.logs


wildcard_constraints:
    study="|".join(PLAN.studies) or "none",
    figure="|".join(name for name, figure in PLAN.figures.items() if figure.kind != "telemetry") or "none",
    telemetry="|".join(name for name, figure in PLAN.figures.items() if figure.kind == "telemetry") or "none",
    fault="|".join(PLAN.faults) or "none",
    link="|".join(PLAN.links),
    dilation="[0-9.]+",
    hosts="[0-9]+",
    transport="|".join(PROBE_TRANSPORTS),
    environment="|".join(sorted(PLAN.settings.environments)),
    runtime="docker|apptainer",
    dataset="[a-z0-9]+-[0-9]+x[0-9]+x[0-9]+",
