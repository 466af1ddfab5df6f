"""Repetitions during which others took much of the machine's cores: they are measured again, and never kept."""

import sys
from collections.abc import Callable

from ddlbench.errors import DdlbenchError
from ddlbench.measurements.record import Record
from ddlbench.sweep.session_job import WhenBusy
from ddlbench.telemetry.other_load import OtherLoad, wait_for_others

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


def undisturbed(measure: Callable[[], Record], when_busy: WhenBusy, most_percent: float) -> Record:
    """Measure a repetition, and again if others took too much of the cores while it trained.

    Args:
        measure: measures it once; the record's `others` is an `OtherLoad`, or None if that is not known.
        when_busy: as the configuration's key `other_measurements`; with `ignore` it is measured once.
        most_percent: what others may take, of the cores.

    Returns:
        The first record with less disturbance.

    Raises:
        DdlbenchError: there was none in three tries.
    """
    for _ in range(_TRIES):
        record = measure()
        load = OtherLoad(**record["others"]) if record.get("others") else None
        if when_busy == "ignore" or load is None or not load.exceeds(most_percent):
            return record
        print(f"{load}: this repetition does not count, and is measured again", file=sys.stderr, flush=True)
        wait_for_others(patience_s(when_busy), most_percent)
    raise DdlbenchError(
        f"{load} (more than {most_percent:g} %) in each of {_TRIES} tries, so this repetition is not kept. Start "
        "again when the machine is idle; a larger `tolerances: others_percent` keeps such repetitions."
    )
