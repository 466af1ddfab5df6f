"""The emulation's own work in a replayed step: what moving its bytes took of this machine's cores."""

from collections.abc import Mapping
from math import ceil, fsum
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.sweep.measured_dilation import MARGIN
from ddlbench.sweep.rounds import PendingPoint
from ddlbench.sweep.session_job import SessionJob
from ddlbench.sweep.steps import TrainedSteps


class TooMuchWork(DdlbenchError):
    """A repetition whose times hold too much of the emulation's own work.

    Attributes:
        what: the work, and what is allowed, for a person.
        enough: the time dilation that would do.
    """

    def __init__(self, words: str, what: str, dilation: float, enough: int) -> None:
        """Say which dilation would do.

        Args:
            words: the point, for a person.
            what: the work, and what is allowed, for a person.
            dilation: of time, that it had.
            enough: the one that would do.
        """
        super().__init__(
            f"{words}: {what}. It has a time dilation of {dilation:g}, and {enough} would do: set "
            f"`dilation: {enough}`, or try again when this machine is less busy"
        )
        self.what = what
        self.enough = enough


def own_work_percent(
    job: SessionJob,
    pending: PendingPoint,
    made: TrainedSteps,
    used: Mapping[str, Any],
) -> float | None:
    """Compute which share of the cores the emulation used while workers replayed steps by waiting.

    That is what the members of the group used, a server too, and the process that delays packets where there is one.

    Args:
        job: for the cores that the workers share, and for the largest share that is allowed.
        pending: the point.
        made: the steps, in wall time.
        used: during the steps, as of `CoreUse`; its `scheduling` is None: that is not known.

    Returns:
        Percent of the cores' time; None where compute is not replayed by waiting, nothing is known, or the steps were
        given up: what workers do on a link that stalls is no work of a step.

    Raises:
        TooMuchWork: it is more than is allowed.
    """
    if used["scheduling"] is None or not pending.point.waits or made.stalled_s is not None:
        return None
    work_ms = fsum(each["ran_ms"] for each in (*used["scheduling"], *used["delaying"]))
    cores = len(job.group.placement.hosts[0].cores)
    wall_ms = max(fsum(times) for times in made.times_ms)
    percent = 100 * work_ms / (cores * wall_ms)
    if percent > (most := job.most_own_work_percent):
        raise TooMuchWork(
            pending.words,
            f"the emulation's own work took {percent:.1f} % of this machine's cores, and replayed compute allows "
            f"{most:g} % (replay.own_work_percent)",
            pending.dilation,
            ceil(MARGIN * pending.dilation * percent / most),
        )
    return percent
