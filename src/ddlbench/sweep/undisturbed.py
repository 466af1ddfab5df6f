"""Repetitions that are measured again, and never kept as they were.

Others disturbed them, their hosts were not held to their shares, a worker crashed, it lacked memory that it may have
held for other points, or this machine was too slow for their time dilation.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

from ddlbench.errors import DdlbenchError
from ddlbench.launch.group_member import WorkerCrashed
from ddlbench.measurements.record import Record
from ddlbench.network.hosts import Placement
from ddlbench.network.verify import OutOfTolerance
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.shares.kept import Kept
from ddlbench.sweep.link_monitor import Degraded
from ddlbench.sweep.measured_dilation import MARGIN, rounded_up
from ddlbench.sweep.own_work import TooMuchWork
from ddlbench.sweep.rounds import PendingPoint
from ddlbench.sweep.session_job import WhenBusy
from ddlbench.telemetry.other_load import OtherLoad, wait_for_others

_TRIES = 3
_PATIENCE_S = 120.0

Result = TypeVar("Result")


def patience_s(when_busy: WhenBusy) -> float:
    """Say how long to wait for others before a link or a repetition is measured again.

    Args:
        when_busy: as the configuration's key `other_measurements`.

    Returns:
        The time in s; 0 if nobody is waited for.
    """
    return _PATIENCE_S if when_busy == "wait" else 0.0


def undisturbed(measure: Callable[[], Record], when_busy: WhenBusy, tolerances: Tolerances) -> Record:
    """Measure a repetition, and again while `disturbance` finds something wrong with it.

    Args:
        measure: measures it once.
        when_busy: as the configuration's key `other_measurements`; with `ignore` it is measured once.
        tolerances: what may be wrong.

    Returns:
        The first record that nothing is wrong with.

    Raises:
        DdlbenchError: there was none in three tries.
    """
    for left in reversed(range(_TRIES)):
        record = measure()
        wrong = None if when_busy == "ignore" else disturbance(record, tolerances)
        if wrong is None:
            return record
        if left:
            again = "this repetition does not count, and is measured again"
            print(f"{wrong}: {again}", file=sys.stderr, flush=True)
            wait_for_others(patience_s(when_busy), tolerances.others_percent)
    raise DdlbenchError(
        f"{wrong} in each of {_TRIES} tries, so this repetition is not kept. Start again when the machine is idle; "
        "larger `tolerances` keep such repetitions."
    )


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
        Degraded: the same, of its link when it was measured again.
    """
    for _ in range(_TRIES - 1 if placement.is_least else 0):
        try:
            return measure()
        except TooMuchWork as error:
            what, pending.dilation = error.what, float(error.enough)
        except (OutOfTolerance, Degraded) as error:
            what, pending.dilation = str(error), rounded_up(MARGIN * pending.dilation)
        again = f"It does not count, and is measured again with a time dilation of {pending.dilation:g}."
        print(f"{pending.words}: {what}\n  {again}", file=sys.stderr, flush=True)
    return measure()


def despite_crash(work: Callable[[], Result], relaunch: Callable[[], None]) -> Result:
    """Do something with a worker group, and once more with a new one if a worker crashes.

    Frameworks crash now and then: TensorFlow's coordinator did once in hundreds of launches. A long run should not end
    because of that.

    Args:
        work: measures a repetition, or starts a group.
        relaunch: starts a new worker group, if `work` does not.

    Returns:
        What `work` returns.

    Raises:
        WorkerCrashed: one did again.
        DdlbenchError: it cannot be done.
    """
    try:
        return work()
    except WorkerCrashed as error:
        print(f"{error}\n  With new workers this is tried again, once.", file=sys.stderr, flush=True)
    relaunch()
    return work()


def in_fresh_memory(
    measure: Callable[[], Record], used_launch: str | None, relaunch: Callable[[], None]
) -> Record:
    """Measure a repetition, and again by new workers if it does not fit into the memory of some that trained before.

    What frameworks have freed they may keep: two workers of 16,000 images each did not fit into 8 GB with TensorFlow at
    one latency, and did at others.

    Args:
        measure: measures it.
        used_launch: of the workers that have measured a repetition already, as records name it; None: none have.
        relaunch: starts new workers.

    Returns:
        The record; one that does not fit is of workers that had trained nothing else.
    """
    record = measure()
    if record["status"] != "does_not_fit" or record["launch"] != used_launch:
        return record
    relaunch()
    return measure()


def disturbance(record: Record, tolerances: Tolerances) -> str | None:
    """Say what was wrong while a repetition trained.

    Where nothing holds hosts to their shares, a run has said so before, and they are not judged.

    Args:
        record: `others` is an `OtherLoad`, and `kept` has a `Kept` for each host; None or missing: not known.
        tolerances: what others may take, and how far hosts may be from their shares.

    Returns:
        What it was, and what is allowed, for a person; None if nothing was wrong.
    """
    load = OtherLoad(**record["others"]) if record.get("others") else None
    if load and load.exceeds(tolerances.others_percent):
        return f"{load} (more than {tolerances.others_percent:g} %)"
    if record.get("divided_between") == "nothing":
        return None
    hosts = [Kept(**each) for each in record.get("kept") or []]
    off = [
        f"host {number} {kept}"
        for number, kept in enumerate(hosts, start=1)
        if kept.is_off(tolerances.share_percent)
    ]
    return f"{'; '.join(off)} (off by more than {tolerances.share_percent:g} %)" if off else None
