"""What runs are planned with: a machine's GPUs, and what a scheduler is asked for (a node for each host)."""

import os
from typing import Any

from ddlbench.plan.plan import Plan
from ddlbench.plan.run import Run

DRIVER_MB = 1024  # memory of the driver, which runs on the first node beside the workers
_PLANNED_GPUS = "DDLBENCH_GPUS"
OVERRIDES = {  # keys of the configuration's `cluster` -> resources of Snakemake's
    "partition": "slurm_partition",
    "account": "slurm_account",
    "runtime_min": "runtime",
    "constraint": "constraint",
    "qos": "qos",
    "cpus": "cpus_per_task",
    "mem_mb": "mem_mb",
    "gres": "gres",
}
OF_THE_PLAN = ("mpi", "nodes", "tasks", "cpus_per_task", "mem_mb", "gres", "tasks_per_gpu")


def planned_gpus(counted: int | None) -> int:
    """Give the number of GPUs where Snakemake plans; its jobs inherit it by an environment variable, on any machine.

    Args:
        counted: by the process that plans; None: this is one of its jobs.

    Returns:
        The number of GPUs.
    """
    if counted is not None:
        os.environ[_PLANNED_GPUS] = str(counted)
    return int(os.environ.get(_PLANNED_GPUS, "0"))


def requested(plan: Plan, run: Run) -> dict[str, Any]:
    """List the resources of a run for Snakemake.

    They come from the plan. What `cluster` sets for the run's study replaces them, and what it sets for a figure of the
    run replaces that.

    Args:
        plan: for `cluster` of the configuration.
        run: of the plan.

    Returns:
        Resource -> value. nodes: one for each host. cpus_per_task and mem_mb: of each node. The profile decides the
        others.
    """
    point = run.points[0]
    gpus = min(point.workers_per_host, point.workers)
    gres = {"gres": f"gpu:{gpus}", "tasks_per_gpu": 0} if point.devices == "gpu" else {}
    several = {"mpi": "srun"} if point.hosts > 1 else {}  # a job on one node runs as a step of srun anyway
    return {
        **several,
        "nodes": point.hosts,
        "tasks": point.hosts,
        "cpus_per_task": point.vcpus,
        "mem_mb": int(point.memory_gb * 1024) + DRIVER_MB,
        **gres,
        **_overrides(plan, run),
    }


def overridden(plan: Plan) -> set[str]:
    """List the resources that `cluster` sets for any study or figure.

    Args:
        plan: for `cluster` of the configuration.

    Returns:
        The names of Snakemake's resources.
    """
    cluster = plan.settings.cluster
    overrides = [keys for block in (cluster.studies, cluster.figures) for keys in block.values()]
    return {OVERRIDES[key] for keys in overrides for key in keys}


def _overrides(plan: Plan, run: Run) -> dict[str, Any]:
    cluster = plan.settings.cluster
    asked = dict(cluster.studies.get(run.study, {}))
    for figure, keys in cluster.figures.items():
        drawn = figure in plan.figures
        if drawn and run.study == plan.figures[figure].study and run in plan.runs_of(figure):
            asked |= keys
    return {OVERRIDES[key]: value for key, value in asked.items()} | (
        {"tasks_per_gpu": 0} if "gres" in asked else {}
    )
