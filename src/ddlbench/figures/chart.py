"""Charts that all studies share: points with intervals, and a visible gap for what could not be measured."""

import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
import plotnine as p9
from mizani.breaks import breaks_extended
from pandas.api.types import is_list_like, is_numeric_dtype

from ddlbench.errors import ConfigError, nearest
from ddlbench.figures import theme
from ddlbench.figures.caption import LINK_COLUMNS, conditions, how_measured, why_missing
from ddlbench.measurements.record import METRICS
from ddlbench.plan.study import Figure

# Axis labels and legend titles, with units: column -> words.
LABELS = {
    "backward_ms": "backward pass (ms a step)",
    "bandwidth_mbit": "maximum bandwidth (Mbit/s)",
    "batch_size": "global batch size (images)",
    "communication_ms": "communication (ms a step)",
    "devices": "devices",
    "epoch": "epoch (number)",
    "epoch_time_s": "time per epoch (s)",
    "fabric": "network",
    "forward_ms": "forward pass (ms a step)",
    "framework": "framework",
    "images_per_second": "throughput (images/s)",
    "latency_ms": "added latency, one way (ms)",
    "link": "link of every host",
    "link_loss_percent": "measured packet loss (%)",
    "link_rate_mbit": "measured bandwidth (Mbit/s)",
    "link_rtt_ms": "measured round trip (ms)",
    "loss_percent": "packet loss (%)",
    "model": "model",
    "runtime": "runtime",
    "step_time_ms": "time per step (ms)",
    "strategy": "strategy",
    "test_accuracy_percent": "test accuracy (%)",
    "test_loss": "test loss, NLL (nats)",
    "train_loss": "training loss, NLL (nats)",
    "training_time_ms": "training time (ms)",
    "training_time_s": "training time (s)",
    "workers": "workers (number)",
}
# Columns that tell lines apart on their own wherever a figure holds more than one of their values.
SETUP_COLUMNS = ("framework", "strategy", "runtime", "devices", "fabric")
# What a point is, apart from its seed: two points that differ in none of these are one point of a figure.
POINT_COLUMNS = (
    *SETUP_COLUMNS,
    *("model", "dataset", "image_shape", "batch_size", "workers", "vcpus", "memory_gb", *LINK_COLUMNS),
    *("congestion_control", "learning_rate", "momentum", "epochs", "steps_per_epoch", "seed"),
)
LOG_FROM_RATIO = 30.0
ROW_SHARE = 0.075  # height of a row of gap marks, as a share of the panel's data range


def points(table: pd.DataFrame, figure: Figure, *, y: str | None = None) -> pd.DataFrame:
    """The rows of `table` that `figure` shows, tidy: one row a point (and epoch), in drawing order.

    table: as in results/tables, any number of grids. y: the column to show, `figure.y` by default; `<name>_ms` is also
    made from `<name>_s`. Returns the point's columns, `y`, `y`_low, `y`_high (95 % interval), status, reason,
    repetitions, dilation, ... and `series`, the legend's text. A point without a value keeps its row, with y empty.
    Raises ConfigError for a column that the table lacks, and where two different points share a place in the figure.
    """
    y = y or figure.y
    rows = _with_derived_columns(table, y)
    for column in filter(None, (figure.x, y, figure.lines, *(figure.where or {}))):
        if column not in rows:
            raise ConfigError(
                f"figure {figure.name}: the table has no column {column!r}{nearest(column, rows.columns)}"
            )
    rows = _matching(rows, figure.where or {})
    epoch = ["epoch"] if "epoch" in rows else []
    rows = rows.drop_duplicates(["point_id", *epoch])
    rows = rows[rows[figure.x].notna() | (figure.kind == "table")]  # no link, no place on a link's axis
    if rows.empty:
        raise ConfigError(
            f"figure {figure.name}: none of the {len(table)} points of its grids match {figure.where}"
        )
    other_metrics = {f"{metric}{end}" for metric in METRICS if metric != y for end in ("", "_low", "_high")}
    rows = rows[[column for column in rows if column not in other_metrics]]
    rows = rows.assign(series=_series(rows, figure))
    shown = [y, f"{y}_low", f"{y}_high"]
    rows = rows.astype(dict.fromkeys(shown, float))
    rows.loc[rows["status"] != "measured", shown] = math.nan
    order = [figure.lines] if figure.lines and is_numeric_dtype(rows[figure.lines]) else []
    if is_numeric_dtype(rows[figure.x]):
        order.append(figure.x)
    rows = rows.sort_values([*order], kind="stable") if order else rows
    if figure.kind != "table":
        refuse_overlap(rows, [figure.x, "series"], figure)
    return rows.reset_index(drop=True)


def line_chart(
    rows: pd.DataFrame, figure: Figure, *, y: str | None = None, legend: str | None = None
) -> p9.ggplot:
    """`y` against a numeric x, one line a series, 95 % intervals as bars; what is missing is marked, with its reason.

    rows: from `points`. Batch sizes lie on a log2 axis. Times start at 0, or lie on a log axis where they span more
    than a factor of 30 (the axis says so). A line never bridges a missing point.
    """
    y = y or figure.y
    axis = _y_axis(rows, y, figure.y_scale)
    log_base = 2 if figure.x == "batch_size" else 10 if figure.x_scale == "log" else None
    span = _Span.of(rows[figure.x], log_base)
    gaps = _gap_marks(rows, figure, figure.x, y, span, axis)
    nudge = _nudges(rows, figure.x, y, axis)
    shares = [
        span.share(float(x)) + nudge[name] for x, name in zip(rows[figure.x], rows["series"], strict=True)
    ]
    drawn = rows.assign(place=[span.value(share) for share in shares], run=_runs(rows, y))
    drawn = drawn[drawn[y].notna()]
    plot = (
        p9.ggplot(rows, p9.aes(figure.x, y, color="series"))
        + p9.geom_line(p9.aes("place", group="run", linetype="series"), data=drawn, size=0.8)
        + _intervals(drawn, y, width=0.022 * span.width)
        + p9.geom_point(p9.aes("place", shape="series", fill="series"), data=drawn, size=2.2, stroke=0.3)
        + span.scale()
    )
    note = "; overlapping marks set side by side" if any(nudge.values()) else ""
    return _finished(plot, rows, figure, y, span, axis, gaps, legend, note)


def category_chart(
    rows: pd.DataFrame, figure: Figure, *, y: str | None = None, legend: str | None = None
) -> p9.ggplot:
    """`y` of each category of x, series side by side as marks with 95 % intervals; gaps as in `line_chart`."""
    y = y or figure.y
    categories = [str(value) for value in dict.fromkeys(rows[figure.x])]
    names = list(rows["series"].cat.categories)
    offset = {name: (i - (len(names) - 1) / 2) * 0.7 / len(names) for i, name in enumerate(names)}
    place = [
        categories.index(str(x)) + offset[s] for x, s in zip(rows[figure.x], rows["series"], strict=True)
    ]
    rows = rows.assign(place=place)
    axis = _y_axis(rows, y, figure.y_scale)
    middles = tuple(float(i) for i in range(len(categories)))
    span = _Span(-0.5, len(categories) - 0.5, None, middles, tuple(categories), margin=0.0)
    gaps = _gap_marks(rows, figure, "place", y, span, axis)
    drawn = rows[rows[y].notna()]
    lines_between = [i + 0.5 for i in range(len(categories) - 1)]
    plot = (
        p9.ggplot(rows, p9.aes("place", y, color="series"))
        + p9.geom_vline(xintercept=lines_between, color=theme.GRID, size=0.8)
        + _intervals(drawn, y, width=0.4 / max(3, len(names)))
        + p9.geom_point(p9.aes(shape="series", fill="series"), data=drawn, size=2.6, stroke=0.3)
        + span.scale()
    )
    marks_only = p9.theme(panel_grid_major_x=p9.element_blank(), legend_key_width=12)
    return _finished(plot, rows, figure, y, span, axis, gaps, legend) + marks_only


def refuse_overlap(rows: pd.DataFrame, place: list[str], figure: Figure) -> None:
    """One place (values of these columns) holds one point: otherwise a figure would mix what differs unseen.

    Raises ConfigError, naming the place and the columns that differ.
    """
    for at, same in rows.groupby(place, sort=False, observed=True, dropna=False):
        if len(same) > 1:
            differing = [
                c for c in (*POINT_COLUMNS, "epoch") if c in same and same[c].nunique(dropna=False) > 1
            ]
            where = ", ".join(
                f"{c} {v}" for c, v in zip(place, at, strict=True) if (c, v) != ("series", "all")
            )
            raise ConfigError(
                f"figure {figure.name}: {len(same)} points lie at {where}; they differ in "
                f"{' and '.join(differing) or 'nothing that a figure can show'}. Choose with `where` or `lines`."
            )


def number(value: float) -> str:
    """A measured number in a table: three digits or all before the point, thousands set apart from 10,000 on."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}" if abs(value) >= 10_000 else f"{value:.{digits}f}"


def ticks(values: Iterable[float]) -> list[str]:
    """The numbers at an axis: all digits, no exponent; thousands set apart where one reaches 10,000."""
    values = list(values)
    text = "{:,.10g}" if max(map(abs, values), default=0) >= 10_000 else "{:.10g}"
    return [text.format(value) for value in values]


def wrapped(text: str, point_size: float, width_in: float = theme.WIDTH_IN) -> str:
    """`text` in lines that fit into the picture at this size of letters."""
    return "\n".join(
        textwrap.wrap(text, int((width_in - 0.15) * 72 / (0.51 * point_size)), break_on_hyphens=False)
    )


@dataclass(frozen=True)
class _Span:
    """The x axis: its ends, ticks and their texts, in data units (`log_base`: where it is logarithmic)."""

    low: float
    high: float
    log_base: int | None
    breaks: tuple[float, ...]
    labels: tuple[str, ...]
    margin: float = 0.04  # room on both sides, as a share of the width

    @classmethod
    def of(cls, values: "pd.Series[Any]", log_base: int | None) -> "_Span":
        """The axis that shows `values`, with a tick at each of them that has room for its text."""
        places = sorted({float(value) for value in values})
        span = cls(places[0], places[-1], log_base, (), ())
        texts = ticks(places)
        kept: list[tuple[float, str]] = []
        for place, text in zip(places, texts, strict=True):
            room = 0.015 + 0.0085 * (len(text) + len(kept[-1][1])) if kept else 0.0
            if not kept or span.share(place) - span.share(kept[-1][0]) >= room:
                kept.append((place, text))
        breaks, labels = [place for place, _ in kept], [text for _, text in kept]
        return cls(span.low, span.high, log_base, tuple(breaks), tuple(labels))

    def place(self, value: float) -> float:
        """`value` on the axis, in the axis' own (transformed) units."""
        return math.log(value, self.log_base) if self.log_base else value

    def value(self, share: float) -> float:
        """The data value at this share of the axis' length."""
        place = self.place(self.low) + share * self.width
        return float(self.log_base**place) if self.log_base else place

    def share(self, value: float) -> float:
        """How far along the axis `value` lies, from 0 to 1."""
        return (self.place(value) - self.place(self.low)) / self.width

    @property
    def width(self) -> float:
        return self.place(self.high) - self.place(self.low) or 1.0

    def scale(self) -> p9.scale_x_continuous:
        trans = f"log{self.log_base}" if self.log_base else "identity"
        limits = (self.low, self.high) if self.high > self.low else (self.value(-0.5), self.value(0.5))
        return p9.scale_x_continuous(
            trans=trans, breaks=list(self.breaks), labels=list(self.labels), limits=limits,
            expand=(self.margin, 0), oob=_keep,
        )  # fmt: skip


@dataclass(frozen=True)
class _YAxis:
    """The y axis: the range of the data on it, in data units, and whether it is logarithmic."""

    low: float
    high: float
    log: bool

    def above(self, share: float) -> float:
        """The data value that lies this share of the data's range above its upper end."""
        if self.log:
            return self.high * float((self.high / self.low) ** share)
        return self.high + (self.high - self.low) * share

    def share(self, value: float) -> float:
        """How far up the axis `value` lies, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def breaks(self) -> list[float]:
        if not self.log:
            return [b for b in breaks_extended(n=5)((self.low, self.high)) if self.low <= b <= self.high]
        steps = (1, 2, 5) if self.high / self.low < 1000 else (1,)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        return [s * 10.0**d for d in decades for s in steps if self.low <= s * 10.0**d <= self.high * 1.0001]


@dataclass(frozen=True)
class _Gaps:
    """What could not be measured: a mark for each point (x, y, series), texts (x, y, words, ha), rows of the strip."""

    marks: pd.DataFrame
    texts: pd.DataFrame
    rows: int


def _with_derived_columns(table: pd.DataFrame, y: str) -> pd.DataFrame:
    """`table` with the link in words, and with milliseconds where only seconds were tabulated."""
    rows = table
    if "link" not in rows and set(LINK_COLUMNS) <= set(rows):
        texts = ("{:g} Mbit/s", "{:g} ms", "{:g} % loss")
        words = [
            ", ".join(
                text.format(value) for text, value in zip(texts, values, strict=True) if not pd.isna(value)
            )
            for values in rows[list(LINK_COLUMNS)].itertuples(index=False)
        ]
        rows = rows.assign(link=[word or "no link" for word in words])
    seconds = f"{y.removesuffix('_ms')}_s"
    if y not in rows and y.endswith("_ms") and seconds in rows:
        rows = rows.assign(**{y + end: rows[seconds + end] * 1000 for end in ("", "_low", "_high")})
        rows = rows.drop(columns=[seconds + end for end in ("", "_low", "_high")])
    return rows


def _matching(rows: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """The rows that have the values of `where`; one worker has no link and so matches every link."""
    for column, asked in where.items():
        match = rows[column].isin(list(asked) if is_list_like(asked) else [asked])
        if column in LINK_COLUMNS:
            match |= rows[column].isna() & (rows["workers"] == 1)
        rows = rows[match]
    return rows


def _series(rows: pd.DataFrame, figure: Figure) -> pd.Categorical:
    """The legend's text of each row, in legend order: numbers by size, words as they appear in the table."""
    setup = [column for column in SETUP_COLUMNS if column in rows and rows[column].nunique() > 1]
    columns = ([figure.lines] if figure.lines else []) + [
        column for column in setup if column != figure.lines
    ]
    columns = [column for column in columns if column != figure.x]
    keys = [
        tuple(
            f"{value:g}" if isinstance(value, int | float) else str(value).replace("_", " ")
            for value in values
        )
        for values in rows[columns].itertuples(index=False)
    ] or [()] * len(rows)
    texts = [", ".join(key) for key in keys] if columns else ["all"] * len(rows)
    order = rows.assign(text=texts)
    if figure.lines and is_numeric_dtype(rows[figure.lines]):
        order = order.sort_values(figure.lines, kind="stable")
    return pd.Categorical(texts, categories=list(dict.fromkeys(order["text"])), ordered=True)


def _intervals(drawn: pd.DataFrame, y: str, width: float) -> p9.geom_errorbar:
    """The 95 % intervals of the points that have one, as bars with caps; width in the axis' own units."""
    known = drawn[drawn[f"{y}_low"].notna() & drawn[f"{y}_high"].notna()]
    bar = p9.aes("place", ymin=f"{y}_low", ymax=f"{y}_high", color="series")
    return p9.geom_errorbar(bar, data=known, inherit_aes=False, width=width, size=0.6, show_legend=False)


def _nudges(rows: pd.DataFrame, x: str, y: str, axis: _YAxis) -> dict[str, float]:
    """How far each series is set aside, as a share of the x axis: not at all, unless markers would hide others."""
    names = list(rows["series"].cat.categories)
    heights = rows.assign(height=[axis.share(value) for value in rows[y]]).sort_values([x, "height"])
    close = heights.groupby(x)["height"].diff().lt(0.03).any()
    return {name: (i - (len(names) - 1) / 2) * (0.012 if close else 0.0) for i, name in enumerate(names)}


def _runs(rows: pd.DataFrame, y: str) -> list[str]:
    """A name for each unbroken stretch of a series: what a line may connect."""
    stretch = rows.groupby("series", observed=True, sort=False)[y].transform(
        lambda values: values.isna().cumsum()
    )
    return [f"{series} {int(count)}" for series, count in zip(rows["series"], stretch, strict=True)]


def _y_axis(rows: pd.DataFrame, y: str, scale: str) -> _YAxis:
    """The axis that holds all values and intervals: from 0, logarithmic, or close to the data for percentages."""
    values = pd.concat([rows[y], rows[f"{y}_low"], rows[f"{y}_high"]]).dropna()
    if values.empty:
        return _YAxis(0.0, 1.0, False)
    low, high = float(values.min()), float(values.max())
    ratio = float(rows[y].max() / rows[y].min()) if rows[y].min() > 0 else 0.0
    if low > 0 and (scale == "log" or ratio > LOG_FROM_RATIO):
        return _YAxis(low / 1.15, high * 1.15, True)
    if y.endswith("_percent"):
        room = max(0.12 * (high - low), 1.0)
        return _YAxis(max(0.0, low - room), min(100.0, high + room) if high <= 100 else high + room, False)
    return _YAxis(min(0.0, low), high * 1.04 or 1.0, False)


def _gap_marks(rows: pd.DataFrame, figure: Figure, x: str, y: str, span: _Span, axis: _YAxis) -> _Gaps:
    """A strip above the data: a row of marks for each reason and series, the reason in words beside them."""
    missing = rows[rows[y].isna()]
    if missing.empty:
        return _Gaps(pd.DataFrame(), pd.DataFrame(), 0)
    missing = missing.assign(why=[why_missing(row) for row in missing.to_dict("records")])
    marks, texts, height = [], [], 0
    names = rows["series"].cat.categories
    for why, group in missing.groupby("why", sort=False):
        series = [part for _, part in group.groupby("series", observed=True, sort=True)]
        who = _who([str(part["series"].iloc[0]) for part in series], figure) if len(names) > 1 else ""
        text, share, side = _reason_place(f"{who}{why}", [span.share(float(value)) for value in group[x]])
        height += 1 if side == "center" else 0
        top = height if side == "center" else height + (len(series) + 1) / 2
        texts.append((span.value(share), axis.above(0.03 + ROW_SHARE * (top - 0.5)), text, side))
        for part in series:
            height += 1
            marks.append(part.assign(gap=axis.above(0.03 + ROW_SHARE * (height - 0.5)), gap_x=part[x]))
    columns = ["gap_x", "gap_y", "words", "ha"]
    return _Gaps(pd.concat(marks), pd.DataFrame(texts, columns=pd.Index(columns)), height)


def _who(series: list[str], figure: Figure) -> str:
    """The series that a gap belongs to, in words: `1 worker: `."""
    noun = "" if figure.lines != "workers" else " worker" if series == ["1"] else " workers"
    return f"{', '.join(series)}{noun}: "


def _reason_place(why: str, shares: list[float]) -> tuple[str, float, Literal["left", "right", "center"]]:
    """The text, its place along the axis and its alignment: beside the marks where there is room, else above them."""
    why = textwrap.shorten(why, 78, placeholder=" …")
    length = len(why) * 0.53 * theme.NOTE_PT / (72 * 4.1)
    if min(shares) - 0.03 >= length:
        return why, min(shares) - 0.03, "right"
    if max(shares) + 0.03 + length <= 1:
        return why, max(shares) + 0.03, "left"
    return why, 0.5, "center"


def _band(span: _Span, axis: _YAxis) -> p9.annotate:
    """The grey strip above the data in which gaps are marked."""
    ends = {
        "xmin": span.value(-0.1),
        "xmax": span.value(1.1),
        "ymin": axis.above(0.03),
        "ymax": axis.above(9.0),
    }
    return p9.annotate("rect", **ends, fill=theme.BAND)


def _keep(x: Any, range: Any = None, only_finite: bool = True) -> Any:  # noqa: A002
    """Values outside of an axis' limits stay as they are (plotnine would empty them)."""
    return x


def _finished(
    plot: p9.ggplot,
    rows: pd.DataFrame,
    figure: Figure,
    y: str,
    span: _Span,
    axis: _YAxis,
    gaps: _Gaps,
    legend: str | None,
    note: str = "",
) -> p9.ggplot:
    """`plot` with its scales, the strip of gaps, the texts around it and the theme."""
    names = list(rows["series"].cat.categories)
    colours, shapes, linetypes = theme.styles(len(names))
    top = axis.above(0.05 + ROW_SHARE * gaps.rows) if gaps.rows else axis.high
    if gaps.rows:
        texts = gaps.texts
        plot += _band(span, axis)
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
    notes = wrapped(how_measured(rows, figure, y) + note, theme.NOTE_PT)
    subtitle = wrapped(conditions(rows, figure), theme.NOTE_PT + 0.5)
    columns, legend_rows = _legend_shape(names, title or "")
    height = 3.1 + 0.13 * (notes.count("\n") + subtitle.count("\n")) + 0.12 * gaps.rows + 0.2 * legend_rows
    plot = (
        plot
        + p9.scale_color_manual(values=colours, limits=names, name=title)
        + p9.scale_fill_manual(values=colours, limits=names, name=title)
        + p9.scale_shape_manual(values=shapes, limits=names, name=title)
        + p9.scale_linetype_manual(values=linetypes, limits=names, name=title)
        + p9.scale_y_continuous(
            trans="log10" if axis.log else "identity", limits=(axis.low, top), breaks=breaks,
            labels=ticks(breaks), expand=(0, 0, 0.01, 0), oob=_keep,
        )
        + p9.labs(
            title=wrapped(figure.title, theme.BASE_PT + 2.4), subtitle=subtitle, caption=notes,
            x=LABELS.get(figure.x, figure.x), y=label[:-1] + ", log scale)" if axis.log else label,
        )
        + p9.guides(**{kind: p9.guide_legend(ncol=columns) for kind in ("color", "fill", "shape", "linetype")})
        + theme.ddlbench_theme(height)
    )  # fmt: skip
    if legend_rows > 1:
        plot += p9.theme(legend_title_position="top")
    return plot if len(names) > 1 else plot + p9.theme(legend_position="none")


def _legend_shape(names: Iterable[str], title: str) -> tuple[int, int]:
    """Columns and rows of a legend above the panel that is not wider than the picture."""
    names = list(names)
    if len(names) < 2:
        return 1, 0
    letter = 0.5 * (theme.BASE_PT - 1.5) / 72
    wide = [0.55 + len(name) * letter for name in names]
    if sum(wide) + len(title) * letter <= theme.WIDTH_IN - 0.2:
        return len(names), 1
    columns = max(1, int((theme.WIDTH_IN - 0.2) / max(wide)))
    return columns, 1 + math.ceil(len(names) / columns)  # the title has a row of its own
