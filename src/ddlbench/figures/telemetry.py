"""Figures of telemetry: what each node did during the timed steps of one repetition."""

import textwrap
from typing import Any

import pandas as pd
import plotnine as p9
from mizani.breaks import breaks_extended

from ddlbench.errors import ConfigError
from ddlbench.figures import theme
from ddlbench.figures.axes import XAxis, YAxis, keep, ticks
from ddlbench.figures.captions.conditions import conditions
from ddlbench.figures.captions.hosts import cores, machine, replayed, shared_cards, uneven
from ddlbench.figures.captions.images import images
from ddlbench.figures.captions.missing import why_missing
from ddlbench.figures.captions.paper import beside_the_paper, of_what_is_shown
from ddlbench.figures.chart import LABELS, legend_shape, wrapped
from ddlbench.figures.rows import matching
from ddlbench.figures.words import escaped, listed, values_of
from ddlbench.plan.study import Figure

_OF_TELEMETRY = (
    "node",
    "role",
    "time_s",
    "interval_s",
    "repetition",
    "dilation",
    "hertz",
    "sampler_core_percent",
)
_MARKED_UNTIL = 60  # values of a line: up to so many, each has a mark
_SHARED_NETWORK = "these nodes share one network: what each of them sends cannot be told apart"


def activity(table: pd.DataFrame, figure: Figure) -> pd.DataFrame:
    """Choose the rows that a figure shows: several points one after another, the fewest workers first.

    Args:
        table: from `telemetry.table`.
        figure: from the study's file.

    Returns:
        The rows with `series` (the node's name in the legend) and `time_s`, which continues from point to point; a
        point lasts from `begins_s` to `ends_s`. A point that was not recorded has one row without a time.

    Raises:
        ConfigError: several points have the same number of workers.
    """
    rows = matching(table, figure.where)
    rows = rows.reindex(
        columns=[*rows.columns, *(name for name in (*_OF_TELEMETRY, figure.y) if name not in rows)]
    )
    points = [part for _, part in rows.groupby("workers", sort=True)]
    for part in points:
        if (count := part["point_id"].nunique()) > 1:
            raise ConfigError(
                f"figure {figure.name}: {count} points have {part['workers'].iloc[0]} workers, and the telemetry "
                "of one is shown. Choose with `where`."
            )
    lasted_s = [(part["time_s"] + part["interval_s"] / 2).max() for part in points]
    known = [length for length in lasted_s if length == length]
    usual_s = sum(known) / len(known) if known else 1.0
    begins_s, placed = 0.0, []
    for part, length in zip(points, lasted_s, strict=True):
        ends_s = begins_s + (length if length == length else usual_s)
        moved = part.assign(time_s=part["time_s"] + begins_s, begins_s=begins_s, ends_s=ends_s)
        placed.append(moved.assign(series=_series(part)))
        begins_s = ends_s
    together = pd.concat(placed, ignore_index=True)
    names = together[["role", "series"]].dropna().drop_duplicates()
    order = sorted(
        names.itertuples(index=False), key=lambda name: (name[0] == "worker", _numbered(str(name[1])))
    )
    categories = list(dict.fromkeys(name for _, name in order))
    return together.assign(series=pd.Categorical(together["series"], categories=categories, ordered=True))


def activity_chart(rows: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw `figure.y` against time: a line for each node, a grey gap for each point that was not recorded.

    Args:
        rows: from `activity`.
        figure: from the study's file.

    Returns:
        The plot; its data are `rows`. Time is in seconds, as without dilation.
    """
    y = figure.y
    drawn = rows[rows[y].notna()]
    stretches = rows.drop_duplicates("point_id")
    several = len(stretches) > 1
    span, axis = _axes(drawn, y, float(rows["ends_s"].max()))
    breaks = axis.breaks if len(drawn) else []
    names = list(rows["series"].cat.categories)
    columns, legend_rows = legend_shape(names, "")
    subtitle = wrapped(conditions(rows, figure), theme.NOTE_PT + 0.5)
    notes = wrapped(" ".join(how_sampled(rows, figure)), theme.NOTE_PT)
    between = p9.geom_vline(
        xintercept=list(stretches["begins_s"])[1:], color=theme.NOTE, size=0.5, linetype="dotted"
    )
    plot = p9.ggplot(rows, p9.aes("time_s", y, color="series")) + between
    missing = stretches[~stretches["point_id"].isin(drawn["point_id"])]
    for layer in (*_gaps(missing, axis), *_lines(drawn, names, columns)):
        plot += layer
    if several:
        texts = [_workers(count) for count in stretches["workers"]]
        plot += p9.geom_text(
            p9.aes("(begins_s + ends_s) / 2", "top", label="words"), inherit_aes=False, size=theme.NOTE_PT, va="center",
            data=stretches.assign(words=texts, top=axis.above(0.06)), color=theme.INK,
        )  # fmt: skip
    plot = (
        plot
        + span.scale()
        + p9.scale_y_continuous(
            limits=(axis.low, axis.above(0.1) if several else axis.high), breaks=breaks, labels=ticks(breaks),
            expand=(0, 0, 0.01, 0), oob=keep,
        )
        + p9.labs(
            title=wrapped(figure.title, theme.BASE_PT + 2.4), subtitle=subtitle, caption=notes,
            x="time, one run after another (s)" if several else LABELS["time_s"], y=LABELS[y],
        )
        + theme.ddlbench_theme(3.1 + 0.13 * (subtitle.count("\n") + notes.count("\n")) + 0.2 * legend_rows)
    )  # fmt: skip
    legend = {"legend_title": p9.element_blank()} if len(names) > 1 else {"legend_position": "none"}
    return plot + p9.theme(**legend)


def _axes(drawn: pd.DataFrame, y: str, end_s: float) -> tuple[XAxis, YAxis]:
    """The axes: time from 0 to the end; `y` from 0, percentages at least to 100."""
    places = [place for place in breaks_extended(n=6)((0.0, end_s)) if 0 <= place <= end_s and len(drawn)]
    highest = 1.05 * float(drawn[y].max()) if len(drawn) else 1.0
    least = 100.0 if y.endswith("_percent") else 1e-9
    span = XAxis(0.0, end_s, None, tuple(places), tuple(ticks(places)), margin=0.02)
    return span, YAxis(0.0, max(highest, least), False)


def _lines(drawn: pd.DataFrame, names: list[str], columns: int) -> list[Any]:
    """A line for each node and point, with marks if its values are few; and their scales, with one legend."""
    if drawn.empty:
        return []
    intervals = drawn.groupby(["point_id", "node"], sort=False)["time_s"].transform("size")
    lines = [part for _, part in drawn[intervals > 1].groupby("point_id", sort=False)]
    layers: list[Any] = [p9.geom_line(p9.aes(linetype="series"), data=part, size=0.6) for part in lines]
    colours, shapes, linetypes = theme.styles(len(names))
    scales: dict[str, Any] = {"color": p9.scale_color_manual(values=colours, limits=names, name=None)}
    if lines:
        scales["linetype"] = p9.scale_linetype_manual(values=linetypes, limits=names, name=None)
    if intervals.max() <= _MARKED_UNTIL:
        layers.append(p9.geom_point(p9.aes(shape="series", fill="series"), data=drawn, size=1.2, stroke=0.2))
        scales["shape"] = p9.scale_shape_manual(values=shapes, limits=names, name=None)
        scales["fill"] = p9.scale_fill_manual(values=colours, limits=names, name=None)
    guides = p9.guides(**{kind: p9.guide_legend(ncol=columns) for kind in scales})
    return [*layers, *scales.values(), guides]


def how_sampled(rows: pd.DataFrame, figure: Figure) -> list[str]:
    """Describe how telemetry was recorded.

    Args:
        rows: from `activity`.
        figure: from the study's file.

    Returns:
        Sentences: repetition, sampling and its cost, images, host, replayed compute, dilation.
    """
    seen = rows[rows["time_s"].notna()]
    if seen.empty:
        return ["Nothing could be shown here."]
    measured = seen.drop_duplicates("point_id")
    busy = seen["sampler_core_percent"].max()
    last = listed(number + 1 for number in values_of(seen, "repetition"))
    return [
        f"Of the last repetition (number {last}), timed steps: {listed(values_of(seen, 'steps'))}.",
        f"{listed(values_of(seen, 'hertz'))} samples a second, by a process that took {busy:.2g} % of a core.",
        *of_what_is_shown(seen, figure),
        *images(seen, figure.y),
        machine(measured),
        *replayed(measured),
        *uneven(measured),
        *shared_cards(measured),
        *cores(measured),
    ]


def activity_caption(rows: pd.DataFrame, figure: Figure) -> str:
    """Write the report's caption, with the points that are not shown.

    Args:
        rows: from `activity`.
        figure: from the study's file.

    Returns:
        reStructuredText.
    """
    sentences = [f"**{escaped(figure.title)}.** {escaped(conditions(rows, figure))}."]
    sentences += map(escaped, how_sampled(rows, figure))
    sentences += [
        f"Not shown: {_workers(row['workers'])} ({escaped(_why(row))})."
        for row in rows[rows[figure.y].isna()].drop_duplicates("point_id").to_dict("records")
    ]
    sentences += beside_the_paper(rows, figure)
    return "\n".join(sentences) + "\n"


def _series(part: pd.DataFrame) -> "pd.Series[Any]":
    """Name a point's nodes by their roles in it: `server`, `worker 1`, `worker 2`."""
    names: dict[Any, str] = {}
    for role, of_role in part.dropna(subset=["node"]).groupby("role", sort=False):
        nodes = sorted(of_role["node"].unique(), key=_numbered)
        names |= {node: f"{role} {i}" if len(nodes) > 1 else str(role) for i, node in enumerate(nodes, 1)}
    return part["node"].map(names)


def _numbered(name: str) -> tuple[str, int]:
    """A key that sorts `h10` after `h9`."""
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


def _gaps(missing: pd.DataFrame, axis: YAxis) -> list[Any]:
    """A grey field for each point that was not recorded, with the reason in it."""
    if missing.empty:
        return []
    words = ["\n".join(textwrap.wrap(_why(row), 44)) for row in missing.to_dict("records")]
    fields = missing.assign(words=words, low=axis.low, high=axis.high)
    return [
        p9.geom_rect(
            p9.aes(xmin="begins_s", xmax="ends_s", ymin="low", ymax="high"), data=fields, inherit_aes=False,
            fill=theme.BAND,
        ),
        p9.geom_text(
            p9.aes("(begins_s + ends_s) / 2", "(low + high) / 2", label="words"), data=fields, inherit_aes=False,
            size=theme.NOTE_PT, color=theme.INK,
        ),
    ]  # fmt: skip


def _why(row: Any) -> str:
    return _SHARED_NETWORK if row["status"] == "measured" else why_missing(row, 120)


def _workers(count: Any) -> str:
    return f"{count} worker{'s' * (count != 1)}"
