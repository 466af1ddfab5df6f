"""The points of a figure that could not be measured, and why."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ddlbench.figures.words import counted, escaped
from ddlbench.measurements.host_columns import is_short_of_memory


def why_missing(row: Mapping[Any, Any], length: int = 64) -> str:
    """Give the reason why a point was not measured. Points with the same cause get the same words.

    Args:
        row: of the point; status, reason, memory_gb, host_memory_gb and devices are read.
        length: of the text at most, in characters.

    Returns:
        The reason, shortened with ` …` if it is too long.
    """
    if row["status"] == "does_not_fit":
        memory = row.get("memory_gb")
        if memory is None or pd.isna(memory) or row.get("devices") == "gpu":
            return "does not fit into memory"
        if is_short_of_memory(row):
            return f"does not fit in {row['host_memory_gb']:g} GB, this machine's share"
        return f"does not fit in {memory:g} GB"
    reason = row.get("reason")
    if not isinstance(reason, str) or not reason:
        return "not measured"
    return reason if len(reason) <= length else reason[: length - 1].rsplit(" ", 1)[0] + " …"


def missing_list(rows: pd.DataFrame) -> str:
    """List the reasons why points are missing, each with its points.

    Args:
        rows: the points that are drawn.

    Returns:
        reStructuredText; empty if all points were measured.
    """
    missing = rows[rows["status"] != "measured"]
    if missing.empty:
        return ""
    lines = ["", f"Not measured ({counted(len(missing), 'point')}):", ""]
    reasons = missing["reason"].where(missing["reason"].notna(), "no reason given")
    for reason, points in missing.groupby(reasons, sort=True):
        names = [str(name) for name in dict.fromkeys(points["point_id"])]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"* {escaped(str(reason))}: {escaped(', '.join(names[:3]))}{more}")
    return "\n".join(lines) + "\n"
