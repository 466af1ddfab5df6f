"""What happened to trainings when members of their worker group were killed, as tidy rows: one for each training."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddlbench.protocol.messages import TestResult

WENT_ON, HUNG, DIED = "went_on", "hung", "died"
COLUMNS = (
    *("framework", "strategy", "model", "dataset", "batch_size", "workers", "learning_rate", "momentum"),
    *("fabric", "backend", "bandwidth_mbit", "latency_ms", "loss_percent"),
    *("measured_rate_mbit", "measured_rtt_ms", "measured_loss_percent", "dilation"),
    *("at_step", "steps", "timeout_s", "killed", "killed_members", "status", "reason", "outcome", "after_s"),
    *("steps_done", "test_accuracy_percent", "test_loss", "ended", "last_log_line", "host"),
)
_ERROR = re.compile(r"^[\w.]*(Error|Exception)\b.*:")
_REASON = re.compile(r"\b(aborted|closed|refused|reset|timed out) by\b")
_LONGEST = 300  # characters of a log's line
_IN_TIME = 0.9  # of a time-out: a member that ended earlier did not wait until the time-out

Row = dict[str, Any]


@dataclass(frozen=True)
class Fate:
    """What happened to a member.

    Attributes:
        name: of the member.
        after_s: the time until then, in seconds.
        has_finished: it has trained to the end.
        ended: how its process ended (`SIGKILL`, `status 1`); None if it did not.
        log_end: of its log, if it ended.
    """

    name: str
    after_s: float
    has_finished: bool = False
    ended: str | None = None
    log_end: str = ""


def outcome(survivors: Sequence[Fate], timeout_s: float) -> str:
    """Name what happened to the members that were not killed.

    Args:
        survivors: at least one.
        timeout_s: how long the framework waits for a silent member.

    Returns:
        WENT_ON if all finished. HUNG if one was silent to the end, or ended only after its framework's time-out.
        Otherwise DIED.
    """
    if all(each.has_finished for each in survivors):
        return WENT_ON
    waited = any(not each.has_finished and not each.ended for each in survivors)
    if waited or max(each.after_s for each in survivors if each.ended) >= _IN_TIME * timeout_s:
        return HUNG
    return DIED


def row(
    killed: str,
    victims: Sequence[Fate],
    survivors: Sequence[Fate],
    *,
    tested: TestResult | None,
    conditions: Mapping[str, Any],
) -> Row:
    """Make the row of one training.

    Args:
        killed: in words, which members were killed.
        victims: the members that were killed.
        survivors: the others, at least one; times as without dilation.
        tested: test of the survivors' parameters; None if it was not possible.
        conditions: the columns that are known before the training, among them steps, at_step and timeout_s.

    Returns:
        Values for COLUMNS. after_s is the time until the last survivor finished or ended, or until we stopped waiting
        for it. steps_done is the number of steps that every surviving worker certainly did.
    """
    found = outcome(survivors, conditions["timeout_s"])
    ended = [each for each in survivors if each.ended]
    first = min(ended, key=lambda each: each.after_s, default=None)
    return {
        **conditions,
        "killed": killed,
        "killed_members": ", ".join(each.name for each in victims),
        "status": "measured",
        "outcome": found,
        "after_s": max(each.after_s for each in survivors),
        "steps_done": conditions["steps" if found == WENT_ON else "at_step"],
        **({"test_loss": tested.loss, "test_accuracy_percent": tested.accuracy_percent} if tested else {}),
        "ended": "; ".join(f"{each.name}: {each.ended} after {each.after_s:.1f} s" for each in ended),
        "last_log_line": _last(first.log_end) if first else "",
    }


def _last(log: str) -> str:
    """The last line of a log that names an error; else the last with a reason; else the last that is not empty."""
    lines = [line.strip() for line in reversed(log.splitlines()) if line.strip()]
    informative = (line for sign in (_ERROR, _REASON) for line in lines if sign.search(line))
    return next(informative, lines[0] if lines else "")[:_LONGEST]


def as_csv(rows: Iterable[Row]) -> str:
    """Write rows as CSV.

    Args:
        rows: as `row` makes them.

    Returns:
        The text, with the header COLUMNS. What does not apply is empty.
    """
    import pandas

    table = pandas.DataFrame(rows, columns=pandas.Index(COLUMNS))
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
