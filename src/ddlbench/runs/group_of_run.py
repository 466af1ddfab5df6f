"""The job of a run's worker group: all that its launcher needs to start it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ddlbench.environments.materials import Materials, dataset_folders
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.launch.group_job import GroupJob, fabric_of
from ddlbench.launch.inherited import inherited_variables
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
        The group's job. It inherits those environment variables of this process that workers read.
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
        timeouts=timeouts_of(run, here, settings.timeouts),
        inherited=inherited_variables(),
        logs=str(logs.resolve()),
        facts=machine,
        framework_timeout_s=_NEVER_S if here.waits else None,
    )


def timeouts_of(run: Run, here: Placement, given: Timeouts) -> Timeouts:
    """Choose the time-outs of a run.

    Args:
        run: of the plan.
        here: where its hosts are.
        given: as the configuration has them, for workers that have a core each.

    Returns:
        More time to build models where workers share cores, and for a replayed step what it takes at least.
    """
    cores = {core for host in here.hosts for core in host.cores}
    on_a_core = max(1.0, len(members_of(run)) / len(cores)) if cores else 1.0
    least_s = max(point.slowest_replay_ms for point in run.points) * here.dilation / 1000
    return replace(given, prepare_s=given.prepare_s * on_a_core, step_s=given.step_s + 2 * least_s)
