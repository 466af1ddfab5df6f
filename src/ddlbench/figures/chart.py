"""Charts that all studies share: points with intervals, and a visible gap for each point that was not measured."""

import math
import textwrap
from collections.abc import Iterable
from typing import Any

import pandas as pd
import plotnine as p9

from ddlbench.figures import theme
from ddlbench.figures.axes import XAxis, YAxis, keep, ticks, y_axis
from ddlbench.figures.bars import bars
from ddlbench.figures.captions.caption import how_measured
from ddlbench.figures.captions.conditions import conditions
from ddlbench.figures.captions.estimates import is_unresolved
from ddlbench.figures.gaps import ROW_SHARE, Gaps, band, gap_marks
from ddlbench.plan.study import Figure

# Axis labels and legend titles, with units: column -> words.
LABELS = {
    "backward_ms": "backward pass (ms a step)",
    "bandwidth_mbit": "maximum bandwidth (Mbit/s)",
    "batch_per_worker": "batch of each worker (images)",
    "batch_size": "global batch size (images)",
    "compute": "compute",
    "communication_ms": "communication (ms a step)",
    "cpu_percent": "CPU utilisation (% of vCPUs)",
    "devices": "devices",
    "epoch": "epoch (number)",
    "epoch_time_s": "time per epoch (s)",
    "fabric": "network",
    "forward_ms": "forward pass (ms a step)",
    "framework": "framework",
    "gpu_memory_gb": "GPU memory in use (GB)",
    "gpu_percent": "GPU utilisation (%)",
    "images_per_second": "throughput (images/s)",
    "killed": "killed",
    "latency_ms": "added latency, one way (ms)",
    "link": "link of every host, or sites",
    "link_loss_percent": "measured packet loss (%)",
    "link_rate_mbit": "measured bandwidth (Mbit/s)",
    "link_rtt_ms": "measured round trip (ms)",
    "loss_percent": "packet loss (%)",
    "memory_gb": "memory in use (GB)",
    "model": "model",
    "one_way_us": "one-way time (µs)",
    "network": "network",
    "multiply_adds": "multiply-adds of a forward pass (count)",
    "outcome": "outcome",
    "received_bytes_per_step": "received by the busiest host (bytes a step)",
    "received_mbit": "received (Mbit/s)",
    "received_packets_per_s": "packets received (1/s)",
    "replay": "device",
    "retransmits_per_s": "segments sent again (1/s)",
    "runtime": "runtime",
    "sent_bytes_per_step": "sent by the busiest host (bytes a step)",
    "sent_mbit": "sent (Mbit/s)",
    "sent_packets_per_s": "packets sent (1/s)",
    "sites": "sites",
    "size_bytes": "message size (bytes)",
    "speedup": "speed-up over one worker",
    "startup_s": "start-up of all workers (s)",
    "step_time_ms": "time per step (ms)",
    "strategy": "strategy",
    "test_accuracy_percent": "test accuracy (%)",
    "test_loss": "test NLL loss (nats)",
    "train_loss": "training loss, NLL (nats)",
    "time_s": "time since the first timed step (s)",
    "throughput_mbit": "throughput (Mbit/s)",
    "training_time_ms": "training time (ms)",
    "training_time_s": "training time (s)",
    "workers": "workers (number)",
}


def line_chart(
    rows: pd.DataFrame, figure: Figure, *, y: str | None = None, legend: str | None = None
) -> p9.ggplot:
    """Draw `y` against a numeric x: a line for each series, bounds as bars, gaps with their reasons.

    Batch sizes are on a log2 axis. Times start at 0; if they span more than a factor of 30, the axis is logarithmic and
    its label says so. A line is interrupted where a point is missing.

    Args:
        rows: from `rows.points`.
        figure: from the study's file.
        y: the column to show; None: the figure's.
        legend: the legend's title; None: the label of the figure's lines.

    Returns:
        The plot; its data are `rows`.
    """
    y = y or figure.y
    axis = y_axis(rows, y, figure.y_scale)
    span = XAxis.of(rows[figure.x], _log_base(figure))
    gaps = gap_marks(rows, figure, figure.x, y, span, axis)
    nudge = _nudges(rows, figure.x, y, axis, span.margin)
    shares = [
        span.share(float(x)) + nudge.get(name, 0.0)
        for x, name in zip(rows[figure.x], rows["series"], strict=True)
    ]
    drawn = rows.assign(place=[span.value(share) for share in shares], run=_runs(rows, y))
    drawn = drawn[drawn[y].notna()]
    plot = (
        p9.ggplot(rows, p9.aes(figure.x, y, color="series"))
        + p9.geom_line(p9.aes("place", group="run", linetype="series"), data=drawn, size=0.8)
        + bars(drawn, y, 0.022 * span.width)
        + _marks(drawn, y, size=2.2)
        + span.scale()
    )
    note = "Overlapping marks are set side by side." if any(nudge.values()) else ""
    return _finished(plot, rows, figure, y, span, axis, gaps, legend, note)


def _log_base(figure: Figure) -> int | None:
    """The base of a figure's x axis; None: it is linear. What studies double from point to point has the base 2."""
    of_batches = figure.x in ("batch_size", "batch_per_worker")
    if figure.x_scale != "log" and not of_batches:
        return None
    return 2 if of_batches or figure.x == "workers" else 10


def category_chart(rows: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw y for each category of x: series side by side, marks with their bounds; gaps with their reasons.

    Args:
        rows: from `rows.points`.
        figure: from the study's file.

    Returns:
        The plot; its data are `rows` with `place`, the position of each mark on the x axis.
    """
    y = figure.y
    categories = [str(value) for value in dict.fromkeys(rows[figure.x])]
    names = list(rows["series"].cat.categories)
    offset = {name: (i - (len(names) - 1) / 2) * 0.7 / len(names) for i, name in enumerate(names)}
    place = [
        categories.index(str(x)) + offset[s] for x, s in zip(rows[figure.x], rows["series"], strict=True)
    ]
    rows = rows.assign(place=place)
    axis = y_axis(rows, y, figure.y_scale)
    middles = tuple(float(i) for i in range(len(categories)))
    room_in = 0.85 * theme.WIDTH_IN / len(categories)
    texts = tuple(wrapped(category, theme.BASE_PT - 1.5, room_in) for category in categories)
    span = XAxis(-0.5, len(categories) - 0.5, None, middles, texts, margin=0.0)
    gaps = gap_marks(rows, figure, "place", y, span, axis)
    drawn = rows[rows[y].notna()]
    lines_between = [i + 0.5 for i in range(len(categories) - 1)]
    plot = (
        p9.ggplot(rows, p9.aes("place", y, color="series"))
        + p9.geom_vline(xintercept=lines_between, color=theme.GRID, size=0.8)
        + bars(drawn, y, 0.4 / max(3, len(names)))
        + _marks(drawn, y, size=2.6)
        + span.scale()
    )
    marks_only = p9.theme(panel_grid_major_x=p9.element_blank(), legend_key_width=12)
    return _finished(plot, rows, figure, y, span, axis, gaps) + marks_only


def number(value: float) -> str:
    """Write a measured number for a table.

    Args:
        value: finite.

    Returns:
        At least three significant digits, all digits before the point, and commas for thousands from 10,000 on.
    """
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}" if abs(value) >= 10_000 else f"{value:.{digits}f}"


def wrapped(text: str, point_size: float, width_in: float = theme.WIDTH_IN) -> str:
    """Break a text into lines that fit into the picture.

    Args:
        text: any; line breaks in it count as spaces.
        point_size: of the letters, in points.
        width_in: of the picture, in inches.

    Returns:
        The lines, joined by line breaks.
    """
    return "\n".join(
        textwrap.wrap(text, int((width_in - 0.15) * 72 / (0.53 * point_size)), break_on_hyphens=False)
    )


def _marks(drawn: pd.DataFrame, y: str, size: float) -> list[Any]:
    """The marks of the points, at `place`; those that are unresolved are faint."""
    opacity = is_unresolved(drawn, y).map({True: 0.35, False: 1.0})
    mark = p9.aes("place", shape="series", fill="series", alpha="opacity")
    return [
        p9.geom_point(mark, data=drawn.assign(opacity=opacity), size=size, stroke=0.3),
        p9.scale_alpha_identity(),
    ]


def _nudges(rows: pd.DataFrame, x: str, y: str, axis: YAxis, margin: float) -> dict[str, float]:
    """How far each series that has marks is moved sideways, in shares of the x axis: 0, unless they would overlap."""
    heights = rows.assign(height=[axis.share(value) for value in rows[y]]).sort_values([x, "height"])
    close = heights.groupby(x)["height"].diff().lt(0.03).any()
    names = rows.loc[rows[y].notna(), "series"].cat.remove_unused_categories().cat.categories
    step = min(0.012, 1.5 * margin / max(1, len(names) - 1)) if close else 0.0
    return {name: (i - (len(names) - 1) / 2) * step for i, name in enumerate(names)}


def _runs(rows: pd.DataFrame, y: str) -> list[str]:
    """For each row, a name of its stretch of the series without missing points: a line connects such a stretch."""
    stretch = rows.groupby("series", observed=True, sort=False)[y].transform(
        lambda values: values.isna().cumsum()
    )
    return [f"{series} {int(count)}" for series, count in zip(rows["series"], stretch, strict=True)]


def _finished(
    plot: p9.ggplot,
    rows: pd.DataFrame,
    figure: Figure,
    y: str,
    span: XAxis,
    axis: YAxis,
    gaps: Gaps,
    legend: str | None = None,
    note: str = "",
) -> p9.ggplot:
    """Add to a plot its scales, the strip of gaps, the texts around it and the theme."""
    names = list(rows["series"].cat.categories)
    colours, shapes, linetypes = theme.styles(len(names))
    top = axis.above(0.05 + ROW_SHARE * gaps.rows) if gaps.rows else axis.high
    if gaps.rows:
        texts = gaps.texts
        plot += band(span, axis)
        for ha, part in texts.groupby("ha"):
            plot += p9.geom_text(
                p9.aes("gap_x", "gap_y", label="words"), data=part, inherit_aes=False, ha=ha, va="center",
                size=theme.NOTE_PT, color=theme.INK,
            )  # fmt: skip
        plot += p9.geom_point(
            p9.aes("gap_x", "gap", color="series"), data=gaps.marks, inherit_aes=False, shape="x", size=2.2, stroke=0.9,
            show_legend=False,
        )  # fmt: skip
    breaks = [] if rows[y].isna().all() else axis.breaks
    label = LABELS.get(y, y)
    title = (
        None if len(names) == 1 else legend or LABELS.get(figure.lines or "", "").removesuffix(" (number)")
    )
    notes = wrapped(" ".join([*how_measured(rows, figure, y), note]), theme.NOTE_PT)
    subtitle = wrapped(conditions(rows, figure), theme.NOTE_PT + 0.5)
    columns, legend_rows = legend_shape(names, title or "")
    heading = wrapped(figure.title, theme.BASE_PT + 2.4)
    small, large = notes.count("\n") + subtitle.count("\n"), heading.count("\n") + legend_rows
    height = 3.1 + 0.13 * small + 0.2 * large + 0.12 * gaps.rows
    plot = (
        plot
        + p9.scale_color_manual(values=colours, limits=names, name=title)
        + p9.scale_fill_manual(values=colours, limits=names, name=title)
        + p9.scale_shape_manual(values=shapes, limits=names, name=title)
        + p9.scale_linetype_manual(values=linetypes, limits=names, name=title)
        + p9.scale_y_continuous(
            trans="log10" if axis.log else "identity", limits=(axis.low, top), breaks=breaks,
            labels=ticks(breaks), expand=(0, 0, 0.01, 0), oob=keep,
        )
        + p9.labs(
            title=heading, subtitle=subtitle, caption=notes,
            x=LABELS.get(figure.x, figure.x), y=axis.title(label),
        )
        + p9.guides(**{kind: p9.guide_legend(ncol=columns) for kind in ("color", "fill", "shape", "linetype")})
        + theme.ddlbench_theme(height)
    )  # fmt: skip
    if legend_rows > 1:
        plot += p9.theme(legend_title_position="top")
    return plot if len(names) > 1 else plot + p9.theme(legend_position="none")


_BESIDE_PANEL_IN = 0.9  # the y axis with its texts: a legend begins where the panel does


def legend_shape(names: Iterable[str], title: str) -> tuple[int, int]:
    """Choose the shape of the legend, so that it is not wider than the picture.

    Args:
        names: of the series.
        title: of the legend; it may be empty.

    Returns:
        Columns and rows; the title counts as a row if it does not fit beside. One series needs no legend: no rows.
    """
    names = list(names)
    if len(names) < 2:
        return 1, 0
    letter = 0.5 * (theme.BASE_PT - 1.5) / 72
    wide = [0.55 + len(name) * letter for name in names]
    if sum(wide) + len(title) * letter <= theme.WIDTH_IN - _BESIDE_PANEL_IN:
        return len(names), 1
    columns = max(1, int((theme.WIDTH_IN - _BESIDE_PANEL_IN) / max(wide)))
    return columns, 1 + math.ceil(len(names) / columns)  # the title has a row of its own
