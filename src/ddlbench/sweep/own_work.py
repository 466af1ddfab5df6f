"""The emulation's own work in a replayed step: what moving its bytes took of this machine's cores."""

from collections.abc import Mapping, Sequence
from math import ceil, fsum

from ddlbench.errors import DdlbenchError
from ddlbench.sweep.rounds import PendingPoint
from ddlbench.sweep.session_job import SessionJob


def own_work_percent(
    job: SessionJob,
    pending: PendingPoint,
    step_times_ms: Sequence[Sequence[float]],
    of_workers: Sequence[Mapping[str, float]] | None,
) -> float | None:
    """Compute which share of the cores workers used while they replayed steps by waiting.

    Args:
        job: for the cores that the workers share, and for the largest share that is allowed.
        pending: the point.
        step_times_ms: of each worker, in wall time.
        of_workers: for each worker's process `ran_ms`, its CPU time during the steps; None: that is not known.

    Returns:
        Percent of the cores' time; None where compute is not replayed by waiting, or nothing is known.

    Raises:
        DdlbenchError: it is more than is allowed.
    """
    replay = pending.point.replay
    if of_workers is None or replay is None or replay.kind != "gpu":
        return None
    placed = job.group.placement
    wall_ms = max(fsum(times) for times in step_times_ms)
    percent = 100 * fsum(each["ran_ms"] for each in of_workers) / (len(placed.hosts[0].cores) * wall_ms)
    refuse_too_much(percent, job.most_own_work_percent, placed.dilation, pending.words)
    return percent


def refuse_too_much(percent: float, most_percent: float, dilation: float, words: str) -> None:
    """Refuse a repetition whose times hold too much of the emulation's own work.

    Args:
        percent: of the cores' time that the work took.
        most_percent: what it may take.
        dilation: the time dilation.
        words: the point, for a person.

    Raises:
        DdlbenchError: it is more; says which dilation would do.
    """
    if percent <= most_percent:
        return
    enough = ceil(dilation * percent / most_percent)
    raise DdlbenchError(
        f"{words}: moving the bytes took {percent:.1f} % of this machine's cores, and replayed compute allows "
        f"{most_percent:g} % (replay.own_work_percent). It has a time dilation of {dilation:g}, and {enough} would do: "
        f"set `dilation: {enough}`, or try again when this machine is less busy"
    )
