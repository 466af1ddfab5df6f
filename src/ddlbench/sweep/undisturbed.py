"""Repetitions during which others took much of the machine's cores: they are measured again, and never kept."""

import sys
from collections.abc import Callable

from ddlbench.errors import DdlbenchError
from ddlbench.measurements.record import Record
from ddlbench.sweep.session_job import WhenBusy
from ddlbench.telemetry.other_load import MOST_PERCENT, OtherLoad, wait_for_others

_TRIES = 3
_PATIENCE_S = 120.0


def patience_s(when_busy: WhenBusy) -> float:
    """Say how long to wait for others before a link or a repetition is measured again.

    Args:
        when_busy: as the configuration's key `other_measurements`.

    Returns:
        The time in s; 0 if nobody is waited for.
    """
    return _PATIENCE_S if when_busy == "wait" else 0.0


def undisturbed(measure: Callable[[], Record], when_busy: WhenBusy) -> Record:
    """Measure a repetition, and again if others took more than `MOST_PERCENT` of the cores while it trained.

    Args:
        measure: measures it once; the record's `others` is an `OtherLoad`, or None if that is not known.
        when_busy: as the configuration's key `other_measurements`; with `ignore` it is measured once.

    Returns:
        The first record with less disturbance.

    Raises:
        DdlbenchError: there was none in three tries.
    """
    for _ in range(_TRIES):
        record = measure()
        load = OtherLoad(**record["others"]) if record.get("others") else None
        if when_busy == "ignore" or load is None or not load.is_much:
            return record
        print(f"{load}: this repetition does not count, and is measured again", file=sys.stderr, flush=True)
        wait_for_others(patience_s(when_busy))
    raise DdlbenchError(
        f"{load} (more than {MOST_PERCENT:g} %) in each of {_TRIES} tries, so this repetition is not kept. Start "
        "again when the machine is idle. `other_measurements: ignore` keeps such repetitions."
    )
