"""Anwar 2021: how many hosts are fastest for a batch size and a latency."""

from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import Any

import pandas as pd
import plotnine as p9

from ddlbench.figures import theme
from ddlbench.figures.caption import conditions, how_measured, why_missing
from ddlbench.figures.chart import line_chart, number, wrapped
from ddlbench.figures.rows import points, refuse_overlap
from ddlbench.plan.study import Figure

HEADINGS = {
    "workers": "workers",
    "batch_size": "batch size",
    "image_shape": "images",
    "dataset": "data set",
    "model": "model",
}
ROW_IN = 0.31


def epoch_time(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Time per epoch of each number of workers against epoch, batch size or latency (figures 7 to 15)."""
    return line_chart(points(table, figure), figure, legend="workers")


def table4(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """The measured database as a picture of a table: a row for workers and batch size, a column for each latency.

    A cell holds the time per epoch and below it its 95 % interval, or why there is none. The fastest number of workers
    of a batch size and latency is bold. One worker uses no link: its one value stands in the column of every latency.
    """
    rows = points(table, figure)
    kinds = [column for column in ("model", "dataset", "image_shape") if rows[column].nunique() > 1]
    rows = rows.sort_values([*kinds, "workers", "batch_size", "latency_ms"], kind="stable", ignore_index=True)
    refuse_overlap(rows, [*kinds, "workers", "batch_size", "latency_ms"], figure)
    cells = _cells(rows, [*kinds, "workers", "batch_size"], figure.y)
    columns, lines = int(cells["column"].max()), int(cells["line"].max())
    groups = cells[cells["line"] >= 0].groupby([*kinds, "workers"], sort=False)["line"]
    rules = pd.DataFrame({"at": [-0.5, *(groups.max() + 0.5)]})
    values, heads = cells[cells["line"] >= 0], cells[cells["line"] < 0]
    plot = p9.ggplot(rows) + p9.geom_segment(
        p9.aes(y="at", yend="at"), data=rules, x=-0.5, xend=columns + 0.5, color=theme.NOTE, size=0.4
    )
    for bold in (True, False):
        weight = "bold" if bold else "normal"
        for part, size in ((values, theme.NOTE_PT + 1), (heads, theme.NOTE_PT + 0.5)):
            data = part[(part["bold"] == bold) & (part["text"] != "")]
            if len(data):
                aes = p9.aes("column", "at", label="text")
                plot += p9.geom_text(
                    aes, data=data, size=size, fontweight=weight, color=theme.INK, lineheight=1.1
                )
    small = values[values["note"] != ""].assign(at=lambda part: part["at"] + part["text"].ne("") * 0.4)
    note = "Time per epoch in s, bold: the lowest of a batch size and latency. One worker uses no link."
    note = f"{note} {conditions(rows, figure)}"
    none = p9.element_blank()
    return (
        plot
        + p9.geom_text(
            p9.aes("column", "at", label="note"),
            data=small,
            size=theme.NOTE_PT - 1.5,
            color=theme.NOTE,
            lineheight=1.1,
        )
        + p9.scale_y_reverse(limits=(lines + 0.6, -2.3), expand=(0, 0))
        + p9.scale_x_continuous(limits=(-0.5, columns + 0.5), expand=(0, 0))
        + p9.labs(
            title=wrapped(figure.title, theme.BASE_PT + 2.4),
            subtitle=wrapped(note, theme.NOTE_PT + 0.5),
            caption=wrapped(how_measured(rows, figure), theme.NOTE_PT),
        )
        + theme.ddlbench_theme(1.3 + ROW_IN * (lines + 3))
        + p9.theme(panel_grid=none, axis_text=none, axis_line=none, axis_line_x=none, axis_title=none)
    )


def _cells(rows: pd.DataFrame, keys: list[str], y: str) -> pd.DataFrame:
    """The table's cells: column, line (headings: below 0), at (its height), text, note (small), bold, and the keys."""
    latencies = sorted(rows["latency_ms"].dropna().unique())
    middle = len(keys) + (len(latencies) - 1) / 2
    heads: list[dict[str, Any]] = [
        {"column": middle, "line": -2, "at": -1.7, "text": "added latency, one way (ms)"},
        *({"column": i, "line": -1, "at": -1.0, "text": HEADINGS[key]} for i, key in enumerate(keys)),
        *(
            {"column": len(keys) + i, "line": -1, "at": -0.9, "text": f"{ms:g}"}
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
    """A point's text and small note: the value over its interval, or only the reason why there is none."""
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
