"""Repetitions that are measured again, and never kept as they were.

Others disturbed them, their hosts were not held to their shares, a worker crashed, or it lacked memory that it may have
held for other points.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

from ddlbench.errors import DdlbenchError
from ddlbench.launch.group_member import WorkerCrashed
from ddlbench.measurements.record import Record
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.shares.kept import Kept
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


def despite_a_crash(work: Callable[[], Result], relaunch: Callable[[], None]) -> Result:
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
