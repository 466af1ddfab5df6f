"""Where the hosts of a run are on this machine, and whether they and their links are possible there at all."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

import psutil

from ddlbench.code.closure import Code
from ddlbench.code.purposes import ON_NODES, code_for
from ddlbench.errors import ConfigError
from ddlbench.launch.gpus import gpus_here
from ddlbench.launch.roles import Member, members, worker_of
from ddlbench.network.hosts import Placement, on_nodes, place, place_waiting
from ddlbench.network.limits import check_queues
from ddlbench.network.link import Link
from ddlbench.plan import Plan, Point, Run
from ddlbench.plan.catalogue import BETWEEN_MACHINES
from ddlbench.sweep.measured_dilation import least_dilation
from ddlbench.system.gpu_shares import Gpu, share_out


def placement(plan: Plan, run: Run) -> Placement:
    """Place a run's hosts on this machine, or on nodes whose names are not known yet.

    Args:
        plan: for the time dilation that the configuration asks for.
        run: whose hosts.

    Returns:
        The hosts, their cores and memory (bytes), and the time dilation.

    Raises:
        ConfigError: the dilation is not possible. On GPUs, which cannot be slowed down, only 1 is.
    """
    point = run.points[0]
    if point.fabric in BETWEEN_MACHINES:
        return on_nodes(
            point.hosts,
            vcpus=point.vcpus,
            memory_gb=point.memory_gb,
            workers_per_host=point.workers_per_host,
            last_is=point.last_place_is,
        )
    return replace(_here(plan, run, point), cards=cards_of(point))


def cards_of(point: Point) -> tuple[int, ...]:
    """List the network card that each emulated host of a point is behind.

    Args:
        point: of the plan.

    Returns:
        The number of the card, for each worker and for the host of a server; empty where nobody shares a card.
    """
    if point.workers_per_host == 1:
        return ()
    workers = tuple(rank // point.workers_per_host for rank in range(point.workers))
    return workers + tuple(range(workers[-1] + 1, point.hosts))


def _here(plan: Plan, run: Run, point: Point) -> Placement:
    """Place the hosts on this machine, each worker of a host by itself."""
    if point.waits:
        asked = plan.settings.dilation
        return place_waiting(
            point.places,
            cores=sorted(os.sched_getaffinity(0)),
            available_memory_bytes=psutil.virtual_memory().available,
            dilation=least_dilation(run.points) if asked == "auto" else float(asked),
            servers=point.places - point.workers,
            is_least=asked == "auto",
        )
    placed = place(
        point.places,
        vcpus=point.vcpus // point.workers_per_host,
        memory_gb=point.memory_gb / point.workers_per_host,
        host_count=point.host_count * point.workers_per_host,
        cores=sorted(os.sched_getaffinity(0)),
        available_memory_bytes=psutil.virtual_memory().available,
        dilation=plan.settings.dilation,
        largest=plan.largest_group(run),
        last_is=point.last_place_is,
    )
    return on_gpus(placed, point, gpus_here()) if point.devices == "gpu" else placed


def on_gpus(placed: Placement, point: Point, gpus: Sequence[Gpu]) -> Placement:
    """Add each worker's share of the GPUs to a placement.

    Args:
        placed: the hosts.
        point: for the numbers of hosts, vCPU and workers.
        gpus: of this machine; empty: the placement stays as it is, and the point is not measured.

    Returns:
        The same hosts, with one share of a GPU for each worker.

    Raises:
        ConfigError: there are GPUs, and time is dilated.
    """
    if gpus and placed.dilation != 1:
        cores = len({core for host in placed.hosts for core in host.cores})
        raise ConfigError(
            "devices: gpu cannot be had in dilated time, which slows processors and links down and no GPU: "
            f"{point.host_count} hosts of {point.vcpus} vCPU need {point.host_count * point.vcpus} cores of their own, "
            f"and have {cores} (possible are dilation auto or 1, and fewer hosts or vcpus)"
        )
    return replace(placed, gpus=share_out(gpus, point.workers))


def code_of(run: Run, what: str = "measure") -> Code:
    """Find the code of ours that decides what is measured of a run.

    Args:
        run: for its worker, and whether it runs on nodes.
        what: a purpose that has workers, as of `code.purposes`: `measure` or `faults`.

    Returns:
        The code, with the purpose `measure torch` or `measure torch nodes`, for example.

    Raises:
        KeyError: there is no such purpose.
    """
    point = run.points[0]
    where = f" {ON_NODES}" if point.fabric in BETWEEN_MACHINES else ""
    return code_for(
        f"{what} {worker_of(point.framework, point.strategy, replayed=point.replay is not None)}{where}"
    )


def members_of(run: Run) -> tuple[Member, ...]:
    """List the processes of a run's worker group.

    Args:
        run: of the plan.

    Returns:
        The members, by rank.
    """
    point = run.points[0]
    on_nodes = point.fabric in BETWEEN_MACHINES
    return members(
        point.framework,
        point.strategy,
        point.workers,
        point.hosts if on_nodes else point.places,
        workers_per_host=point.workers_per_host if on_nodes else 1,
    )


def check_placements(plan: Plan, run_ids: Iterable[str]) -> None:
    """Check that all runs and their links are possible on this machine.

    Args:
        plan: all settings.
        run_ids: the runs, as `Run.id`.

    Raises:
        ConfigError: a run asks for a dilation or for a link that is not possible here; names the run.
    """
    for run_id in run_ids:
        run = plan.run(run_id)
        try:
            here = placement(plan, run)
            for link in (
                () if here.is_least else links(plan, run)
            ):  # its queues fit at the dilation that is chosen
                check_queues(
                    link,
                    hosts=run.points[0].places,
                    dilation=here.dilation,
                    memory_bytes=psutil.virtual_memory().available,
                )
        except ConfigError as error:
            raise ConfigError(f"{error}; asked for by {run_id}") from error


def links(plan: Plan, run: Run) -> list[Link]:
    """List the links that a run makes.

    Args:
        plan: decides which points can be measured.
        run: of the plan.

    Returns:
        The links of its measurable points, each once. Sites are not among them.
    """
    points = plan.measurable_points(run.id)
    found = [
        Link(point.bandwidth_mbit, point.latency_ms or 0.0, point.loss_percent or 0.0)
        for point in points
        if point.bandwidth_mbit is not None
    ]
    inside = [Link(each.inside.bandwidth_mbit, each.inside.latency_ms) for each in points if each.inside]
    return list(dict.fromkeys([*found, *inside]))
