"""Points that leave something open: not measured, or with an interval wider than asked for."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from ddlbench.measurements.metrics import is_of_time

Row = Mapping[str, Any]
MEASURED = "measured"


class Gap(NamedTuple):
    """Points of a study that were not measured for one reason."""

    study: str
    status: str
    reason: str
    points: list[str]


def gaps(rows: Iterable[Row]) -> list[Gap]:
    """Find what could not be measured, each reason once.

    Args:
        rows: of tables as of `measurements.tables`, with their cells as text.

    Returns:
        A gap for each study, status and reason; its points are sorted.
    """
    found: dict[tuple[str, str, str], set[str]] = {}
    for row in rows:
        if row.get("status", MEASURED) != MEASURED:
            cause = row["study"], row["status"].replace("_", " "), row.get("reason") or "no reason given"
            found.setdefault(cause, set()).add(row["point_id"])
    return [Gap(*cause, sorted(points)) for cause, points in found.items()]


def unresolved(tables: Iterable[tuple[str, Iterable[Row]]]) -> dict[str, list[str]]:
    """Find the points whose interval is wider than the stop rule allows, where a time of them is shown.

    Args:
        tables: of figures: the column that each shows, and its rows as for `gaps`.

    Returns:
        The points of each study, each once.
    """
    found: dict[str, dict[str, None]] = {}
    for row in chain.from_iterable(rows for shown, rows in tables if is_of_time(shown)):
        if row.get("resolved") == "False":
            found.setdefault(row["study"], {})[row["point_id"]] = None
    return {study: list(points) for study, points in found.items()}
