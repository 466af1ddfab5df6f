"""The job of a run's worker group: all that its launcher needs to start it."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ddlbench.environments.materials import Materials, dataset_folders
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.launch.group_job import GroupJob, fabric_of
from ddlbench.launch.roles import worker_of
from ddlbench.network.hosts import Placement
from ddlbench.plan import Plan, Run
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.runs.placement import members_of

_NEVER_S = 7 * 86400.0  # a step may take hours; who is missing is seen by the supervisor


def group_job(
    plan: Plan,
    run: Run,
    here: Placement,
    environments: Mapping[str, RuntimeEnvironment],
    materials: Materials,
    datasets: Mapping[str, str],
    machine: Mapping[str, object],
    logs: Path,
) -> GroupJob:
    """Describe a run's worker group and its hosts.

    Args:
        plan: for its settings.
        run: whose group it is.
        here: where its hosts are.
        environments: by runtime; the group starts in the first one.
        materials: for the folders that its workers read.
        datasets: the data sets' files, by name and image shape (digits-28x28x1).
        machine: facts of this machine.
        logs: a folder.

    Returns:
        The group's job. It inherits the environment variables of this process.
    """
    point, settings = run.points[0], plan.settings
    return GroupJob(
        run=run.id,
        worker=worker_of(point.framework, point.strategy, replayed=point.replay is not None),
        strategy=point.strategy,
        devices="gpu" if point.devices == "gpu" else "cpu",
        fabric=fabric_of(point.fabric),
        interfaces=settings.interfaces,
        congestion_control=point.congestion_control,
        sites=len(point.sites.lans) if point.sites else 1,
        workers_per_host=point.workers_per_host,
        placement=here,
        members=members_of(run),
        runtime=next(iter(environments)),
        environments=environments,
        datasets=datasets,
        readable=dataset_folders(settings.datasets, materials.datasets.values()),
        timeouts=_timeouts(run, here, settings.timeouts),
        inherited=dict(os.environ),
        logs=str(logs.resolve()),
        facts=machine,
        framework_timeout_s=_NEVER_S if here.waits else None,
    )


def _timeouts(run: Run, here: Placement, given: Timeouts) -> Timeouts:
    """The time-outs of a run; those of a replayed step come on top of the time that it takes at least."""
    least_s = max(
        point.replay.step_ms * here.dilation / 1000 if point.replay else 0.0 for point in run.points
    )
    return replace(given, step_s=given.step_s + 2 * least_s)
