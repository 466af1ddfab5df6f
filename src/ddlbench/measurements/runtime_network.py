"""How fast messages are on the networks of each runtime, as tidy rows."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ddlbench.measurements import point_to_point

COLUMNS = (
    *("runtime", "network", "status", "reason", "size_bytes"),
    *("one_way_us", "one_way_us_low", "one_way_us_high"),
    *("throughput_mbit", "throughput_mbit_low", "throughput_mbit_high", "repetitions", "host"),
)
Row = dict[str, Any]
Way = tuple[str, str]  # (runtime, network)


def rows(
    times_s: Mapping[Way, Mapping[int, Sequence[float]]], without: Mapping[Way, str], host: str
) -> list[Row]:
    """Summarise one-way times as medians and their bounds, as of `median_interval`.

    Args:
        times_s: for each runtime and network, size in bytes -> one-way times in seconds, one for each round.
        without: for each runtime and network that was not measured, the reason.
        host: on which machine.

    Returns:
        One row for each runtime, network and size, and one for each that was not measured; keys are of COLUMNS.
    """
    measured = [
        row
        for (runtime, network), of_size in times_s.items()
        for row in point_to_point.rows(
            of_size,
            {"runtime": runtime, "network": network, "status": "measured", "reason": None, "host": host},
        )
    ]
    lacking = [
        {"runtime": runtime, "network": network, "status": "not_available", "reason": reason, "host": host}
        for (runtime, network), reason in without.items()
    ]
    return [*measured, *lacking]


def as_csv(found: Iterable[Row]) -> str:
    """Write rows as CSV.

    Args:
        found: rows, as `rows` makes them.

    Returns:
        The text, with the header COLUMNS. What was not measured is empty.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()
