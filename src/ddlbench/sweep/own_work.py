"""The emulation's own work in a replayed step: what moving its bytes took of this machine's cores.

A repetition that it took too much of, or whose link did not carry its bytes, is measured again with more dilation.
"""

import sys
from collections.abc import Callable, Mapping
from math import ceil, fsum
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.measurements.record import Record
from ddlbench.network.hosts import Placement
from ddlbench.network.verify import OutOfTolerance
from ddlbench.sweep.link_monitor import Weakened
from ddlbench.sweep.measured_dilation import MARGIN, rounded_up
from ddlbench.sweep.rounds import PendingPoint
from ddlbench.sweep.session_job import SessionJob
from ddlbench.sweep.steps import TrainedSteps

_TRIES = 3


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


def dilated_enough(measure: Callable[[], Record], pending: PendingPoint, placement: Placement) -> Record:
    """Measure a repetition, and again with more dilation while this machine is too slow for the one that it has.

    On a busy machine a byte costs more than when the dilation was chosen: the emulation's own work takes too much of
    the cores, or a fast link does not carry what it should.

    Args:
        measure: measures it once.
        pending: the point; later repetitions of it have the dilation of the last try.
        placement: tells whether the dilation was chosen by measurement. Else the repetition is measured once.

    Returns:
        The record.

    Raises:
        TooMuchWork: there was too much in each of three tries, or the configuration has a number as dilation.
        OutOfTolerance: the same, of its link.
        Weakened: the same, of its link when it was measured again.
    """
    for _ in range(_TRIES - 1 if placement.is_least else 0):
        try:
            return measure()
        except TooMuchWork as error:
            what, pending.dilation = error.what, float(error.enough)
        except (OutOfTolerance, Weakened) as error:
            what, pending.dilation = str(error), rounded_up(MARGIN * pending.dilation)
        again = f"It does not count, and is measured again with a time dilation of {pending.dilation:g}."
        print(f"{pending.words}: {what}\n  {again}", file=sys.stderr, flush=True)
    return measure()


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
