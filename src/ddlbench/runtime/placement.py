"""Where the hosts of a run lie on this machine, and whether they can lie there at all."""

import os
from collections.abc import Iterable

import psutil

from ddlbench.errors import ConfigError
from ddlbench.network.hosts import Placement, place
from ddlbench.plan import Plan, Run


def placement(plan: Plan, run: Run) -> Placement:
    """Where the run's hosts lie on this machine. Raises ConfigError for a dilation that cannot be had."""
    point = run.points[0]
    return place(
        point.workers,
        vcpus=point.vcpus,
        memory_gb=point.memory_gb,
        host_count=point.host_count,
        cores=sorted(os.sched_getaffinity(0)),
        available_memory_bytes=psutil.virtual_memory().available,
        dilation=plan.settings["dilation"],
    )


def check_placements(plan: Plan, run_ids: Iterable[str]) -> None:
    """Raise ConfigError, naming the run, if one of them asks for a dilation that cannot be had here."""
    for run_id in run_ids:
        try:
            placement(plan, plan.run(run_id))
        except ConfigError as error:
            raise ConfigError(f"{error}; asked for by {run_id}") from error
