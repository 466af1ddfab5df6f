"""Anwar 2021: how many hosts are fastest for a batch size and a latency."""

from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import Any

import pandas as pd
import plotnine as p9

from ddlbench.figures.captions.caption import how_measured
from ddlbench.figures.captions.conditions import conditions
from ddlbench.figures.captions.missing import why_missing
from ddlbench.figures.chart import line_chart, number
from ddlbench.figures.rows import points, refuse_overlap
from ddlbench.figures.table import table_picture
from ddlbench.plan.study import Figure

HEADINGS = {
    "framework": "framework",
    "workers": "workers",
    "batch_size": "batch size",
    "image_shape": "images",
    "dataset": "data set",
    "model": "model",
}


def epoch_time(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw the time per epoch for each number of workers against epoch, batch size or latency (figures 7 to 15).

    Args:
        table: as in results/tables.
        figure: from the study's file.

    Returns:
        The plot, with a line for each number of workers.

    Raises:
        ConfigError: as of `rows.points`.
    """
    return line_chart(points(table, figure), figure, legend="workers")


def table4(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw table 4, the measured database: a row for workers and batch size, a column for each latency.

    A cell holds the time per epoch and below it the 95 % interval, or the reason why there is none. For each batch size
    and latency the fastest number of workers is bold. One worker uses no link, so its value is in all columns.

    Args:
        table: as in results/tables.
        figure: from the study's file.

    Returns:
        The picture of the table; its data are the rows of `rows.points`, sorted as in the table.

    Raises:
        ConfigError: as of `rows.points`, or two points belong into one cell.
    """
    rows = points(table, figure)
    kinds = [
        column for column in ("framework", "model", "dataset", "image_shape") if rows[column].nunique() > 1
    ]
    rows = rows.sort_values([*kinds, "workers", "batch_size", "latency_ms"], kind="stable", ignore_index=True)
    refuse_overlap(rows, [*kinds, "workers", "batch_size", "latency_ms"], figure)
    cells = _cells(rows, [*kinds, "workers", "batch_size"], figure.y)
    groups = cells[cells["line"] >= 0].groupby([*kinds, "workers"], sort=False)["line"]
    note = "Time per epoch in s, bold: the lowest of a batch size and latency. One worker uses no link."
    return table_picture(
        rows,
        cells,
        [-0.5, *(groups.max() + 0.5)],
        title=figure.title,
        note=f"{note} {conditions(rows, figure)}",
        caption=" ".join(how_measured(rows, figure)),
    )


def _cells(rows: pd.DataFrame, keys: list[str], y: str) -> pd.DataFrame:
    """The table's cells: column, line (below 0 for headings), at (height), text, note (small), bold, and the keys."""
    latencies = sorted(rows["latency_ms"].dropna().unique())
    middle = len(keys) + (len(latencies) - 1) / 2
    heads: list[dict[str, Any]] = [
        {"column": middle, "line": -2, "at": -1.7, "text": "added latency, one way (ms)"},
        *({"column": i, "line": -1, "at": -1.0, "text": HEADINGS[key]} for i, key in enumerate(keys)),
        *(
            {"column": len(keys) + i, "line": -1, "at": -1.0, "text": f"{ms:g}"}
            for i, ms in enumerate(latencies)
        ),
    ]
    cells = [{"note": "", "bold": True, **head} for head in heads]
    lines: dict[tuple[Any, ...], int] = {}
    for point in ({str(name): value for name, value in row.items()} for row in rows.to_dict("records")):
        key = {name: point[name] for name in keys}
        if tuple(key.values()) not in lines:
            lines[tuple(key.values())] = len(lines)
            for i, (name, value) in enumerate(key.items()):
                text = f"{value:,}" if name in ("workers", "batch_size") else str(value)
                at = {"column": i, "line": len(lines) - 1, "at": len(lines) - 1}
                cells.append({**key, **at, "text": text, "note": "", "bold": False})
        line = lines[tuple(key.values())]
        for i, latency in enumerate(latencies):
            if pd.isna(point["latency_ms"]) or point["latency_ms"] == latency:
                at = {"column": len(keys) + i, "line": line, "at": line}
                cells.append({**key, **at, "latency": latency, "value": point[y], **_cell_text(point, y)})
    table = pd.DataFrame(cells)
    values = table[table["value"].notna()]
    others = [key for key in keys if key != "workers"]
    fastest = values.groupby([*others, "latency"])["value"].transform("min")
    table.loc[values.index, "bold"] = values["value"] == fastest
    table.loc[table["value"].notna(), "at"] -= 0.14
    return table


def _cell_text(point: Mapping[str, Any], y: str) -> dict[str, Any]:
    """A point's text and small note: the value above its interval, or only the reason why there is none."""
    if pd.isna(point[y]):
        return {
            "text": "",
            "note": "\n".join(wrap(why_missing(point), 14, max_lines=3, placeholder=" …")),
            "bold": False,
        }
    low, high = point[f"{y}_low"], point[f"{y}_high"]
    interval = "" if pd.isna(low) or pd.isna(high) else f"{number(low)} - {number(high)}"
    return {"text": number(point[y]), "note": interval, "bold": False}


FIGURES: dict[str, Callable[[pd.DataFrame, Figure], p9.ggplot]] = {
    **{f"anwar2021_fig{number}": epoch_time for number in range(7, 16)},
    "anwar2021_table4": table4,
}
