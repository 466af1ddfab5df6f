"""Points that could not be measured, as visible gaps: marks in a strip above the data, and the reasons as text."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
import plotnine as p9

from ddlbench.figures import theme
from ddlbench.figures.axes import XAxis, YAxis
from ddlbench.figures.captions.missing import why_missing
from ddlbench.measurements.metrics import LOSSES
from ddlbench.plan.study import Figure

MOST_CHARACTERS = 78  # of a reason, in a line
ROW_SHARE = 0.075  # height of a row of gap marks, as a share of the panel's data range


@dataclass(frozen=True)
class Gaps:
    """The strip of gaps above the data.

    Attributes:
        marks: one row for each point; columns gap_x, gap (its height) and series.
        texts: one row for each reason; columns gap_x, gap_y, words and ha (horizontal alignment).
        rows: how many rows of marks the strip has.
    """

    marks: pd.DataFrame
    texts: pd.DataFrame
    rows: int


def gap_marks(rows: pd.DataFrame, figure: Figure, x: str, y: str, span: XAxis, axis: YAxis) -> Gaps:
    """Place the gaps: a row of marks for each reason and series, with the reason as text beside them.

    Args:
        rows: from `rows.points`; a row without a value of `y` is a gap.
        figure: from the study's file.
        x: the column with the place on the x axis.
        y: the column that is shown.
        span: the x axis.
        axis: the y axis.

    Returns:
        The strip of gaps; without gaps its tables are empty and it has no rows.
    """
    missing = rows[rows[y].isna()]
    if missing.empty:
        return Gaps(pd.DataFrame(), pd.DataFrame(), 0)
    missing = missing.assign(why=[_why(row, y) for row in missing.to_dict("records")])
    marks, texts, height = [], [], 0
    names = rows["series"].cat.categories
    for reason, group in missing.groupby("why", sort=False):
        why = str(reason)
        series = [part for _, part in group.groupby("series", observed=True, sort=True)]
        who = _who([str(part["series"].iloc[0]) for part in series], figure) if len(names) > 1 else ""
        # Where there is no room for both, the marks still tell the series apart.
        words = f"{who}{why}" if len(who) + len(why) <= MOST_CHARACTERS else why
        text, share, side = _reason_place(words, [span.share(float(value)) for value in group[x]])
        height += 1 if side == "center" else 0
        top = height if side == "center" else height + (len(series) + 1) / 2
        texts.append((span.value(share), axis.above(0.03 + ROW_SHARE * (top - 0.5)), text, side))
        for part in series:
            height += 1
            marks.append(part.assign(gap=axis.above(0.03 + ROW_SHARE * (height - 0.5)), gap_x=part[x]))
    columns = ["gap_x", "gap_y", "words", "ha"]
    return Gaps(pd.concat(marks), pd.DataFrame(texts, columns=pd.Index(columns)), height)


def _why(row: Mapping[Any, Any], y: str) -> str:
    """Why a point is a gap; a training whose loss is none has been measured all the same."""
    has_diverged = y in LOSSES and row["status"] == "measured" and row["diverged"]
    return "the training diverged" if has_diverged else why_missing(row)


def _who(series: list[str], figure: Figure) -> str:
    """Name the series that a gap belongs to: `1 worker: `, or `1, gpu; 2, gpu: ` if they have several properties."""
    if any("," in each for each in series):
        return f"{'; '.join(series)}: "
    noun = "" if figure.lines != "workers" else " worker" if series == ["1"] else " workers"
    return f"{', '.join(series)}{noun}: "


def _reason_place(why: str, shares: list[float]) -> tuple[str, float, Literal["left", "right", "center"]]:
    """A reason's text, place on the axis and alignment: beside the marks if there is room, else above them."""
    why = textwrap.shorten(why, MOST_CHARACTERS, placeholder=" …")
    length = len(why) * 0.53 * theme.NOTE_PT / (72 * 4.1)
    if min(shares) - 0.03 >= length:
        return why, min(shares) - 0.03, "right"
    if max(shares) + 0.03 + length <= 1:
        return why, max(shares) + 0.03, "left"
    return why, 0.5, "center"


def band(span: XAxis, axis: YAxis) -> p9.annotate:
    """Make the grey strip above the data that holds the gaps.

    Args:
        span: the x axis.
        axis: the y axis.

    Returns:
        A layer; it is larger than the strip, and the panel cuts it off.
    """
    ends = {
        "xmin": span.value(-0.1),
        "xmax": span.value(1.1),
        "ymin": axis.above(0.03),
        "ymax": axis.above(9.0),
    }
    return p9.annotate("rect", **ends, fill=theme.BAND)
