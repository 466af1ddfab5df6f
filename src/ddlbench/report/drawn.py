"""A drawn figure as it stands on the page: picture, caption, and the values that it shows."""

import base64
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from docutils.core import publish_parts

from ddlbench.figures.captions.paper import that_hold
from ddlbench.files import read_regular
from ddlbench.plan.study import Figure

# What the rows of a table are of, where its kind says it and not its study's file.
OF_WHAT: Mapping[str, tuple[str, ...]] = {
    "faults": ("framework", "strategy"),
    "runtimes": ("runtime", "size_bytes"),
}
# A caption is text; it must not read other files, nor become HTML of its own.
CAPTION_SETTINGS = {"raw_enabled": False, "file_insertion_enabled": False, "report_level": 5}


@dataclass(frozen=True)
class Drawn:
    """A figure.

    Attributes:
        name: of the figure.
        study: its key.
        title: of the figure.
        picture: a `data:` URL.
        caption: HTML, of which every text from outside is escaped.
        columns: names of what the figure shows.
        rows: the values below them.
        deviations: how it differs from the paper.
    """

    name: str
    study: str
    title: str
    picture: str
    caption: str
    columns: list[str]
    rows: list[list[str]]
    deviations: list[str]


def read_drawn(svg: Path, figure: Figure) -> Drawn:
    """Read a figure's files.

    Args:
        svg: the picture; data and caption lie beside it.
        figure: from the study's file.

    Returns:
        The figure.

    Raises:
        OSError: a file is missing.
    """
    data = base64.b64encode(read_regular(svg)).decode()
    rst = read_regular(svg.with_name(f"{figure.name}.caption.rst")).decode()
    values = pd.read_csv(svg.with_suffix(".csv"))
    columns = _columns(values, figure)
    return Drawn(
        figure.name,
        figure.study,
        figure.title,
        f"data:image/svg+xml;base64,{data}",
        publish_parts(rst, writer="html5", settings_overrides=CAPTION_SETTINGS)["body"],
        [_heading(column) for column in columns],
        [[_cell(row, column) for column in columns] for row in values.to_dict("records")] if columns else [],
        [each.text for each in that_hold(values, figure)],
    )


def _columns(values: pd.DataFrame, figure: Figure) -> list[str]:
    """The columns of the picture's data that a reader needs to read it without seeing it."""

    def as_drawn(name: str) -> str:
        return name if name in values else f"{name.removesuffix('_s')}_ms"

    if as_drawn(figure.y) not in values or figure.kind == "telemetry":  # thousands of samples
        return []
    lines = "series" if "series" in values else figure.lines or ""
    shown = figure.columns or (*OF_WHAT.get(figure.kind, ()), lines, figure.x, figure.y)
    names = [*map(as_drawn, shown), "status"]
    return [name for name in dict.fromkeys(names) if name in values]


def _heading(column: str) -> str:
    return column.replace("_", " ")


def _cell(row: Mapping[Hashable, Any], column: str) -> str:
    text = _number(row[column])
    low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
    if pd.isna(low) or pd.isna(high):
        return text
    return f"{text} [{_number(low)}, {_number(high)}]"


def _number(value: Any) -> str:
    if pd.isna(value):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
