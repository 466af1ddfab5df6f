"""Figures of probes: how fast messages of each size are on a link, and how that was measured."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotnine as p9

from ddlbench.figures import theme
from ddlbench.figures.axes import XAxis, keep, ticks, y_axis
from ddlbench.figures.captions.estimates import bounds_of_medians
from ddlbench.figures.captions.hosts import machine
from ddlbench.figures.captions.paper import beside_the_paper, of_what_is_shown
from ddlbench.figures.chart import LABELS, wrapped
from ddlbench.figures.words import escaped, listed, span_of, values_of
from ddlbench.plan.study import Figure

OURS, NETPIPE = "ddlbench", "NPtcp"  # tools, as the tables name them
TOOLS = {OURS: "", NETPIPE: ", NetPIPE's NPtcp"}
_BREAKS = (1, 16, 256, 4096, 65536, 1 << 20, 1 << 24)
_RATE_PT = theme.NOTE_PT - 0.5
_OUTRUN = 0.05  # a message that is faster than its link by this share was not limited by the link


def messages(table: pd.DataFrame, figure: Figure, names: Mapping[str, str]) -> pd.DataFrame:
    """Choose and order the rows of point-to-point tables that a figure shows.

    Args:
        table: as in results/probes/point_to_point, one link or several.
        figure: from the study's file.
        names: link -> its name in the legend, if that is another.

    Returns:
        The rows in the order of the figure's links, with `series`, the legend's text: link, fabric, dilation, tool.
    """
    order = {probe.link: number for number, probe in enumerate(figure.probes)}
    rows = table.assign(order=table["link"].map(order), second=table["tool"] != OURS)
    rows = rows.sort_values(["order", "second", "size_bytes"], kind="stable").drop(
        columns=["order", "second"]
    )
    series = [
        f"{names.get(link, link)}, {fabric}, k = {factor:g}{TOOLS.get(tool, f', {tool}')}"
        for link, fabric, factor, tool in rows[["link", "fabric", "dilation", "tool"]].itertuples(index=False)
    ]
    categories = list(dict.fromkeys(series))
    return rows.assign(series=pd.Categorical(series, categories=categories, ordered=True)).reset_index(
        drop=True
    )


def message_chart(rows: pd.DataFrame, figure: Figure, claim: str = "") -> p9.ggplot:
    """Draw `figure.y` against the size of messages: a line for each link and tool, with bounds as bands.

    Dotted lines show the nominal rates of links.

    Args:
        rows: from `messages`.
        figure: from the study's file.
        claim: a sentence for the subtitle; it may be empty.

    Returns:
        The plot; its data are `rows`.
    """
    y = figure.y
    axis = y_axis(rows, y, figure.y_scale)
    sizes = rows["size_bytes"]
    shown = tuple(float(size) for size in _BREAKS if sizes.min() <= size <= sizes.max())
    log_base = 2 if figure.x_scale == "log" else None
    span = XAxis(float(sizes.min()), float(sizes.max()), log_base, shown, tuple(ticks(shown)))
    links = list(dict.fromkeys(rows["link"]))
    first = rows.drop_duplicates("series").set_index("series")
    colours = [theme.COLOURS[links.index(first["link"][name])] for name in first.index]
    linetypes = ["solid" if first["tool"][name] == OURS else (0, (4, 2)) for name in first.index]
    known = rows[rows[f"{y}_low"].notna() & rows[f"{y}_high"].notna()]
    subtitle = wrapped(" ".join(filter(None, (claim, _links_in_words(rows)))), theme.NOTE_PT + 0.5)
    notes = wrapped(" ".join([*how_probed(rows), *of_what_is_shown(rows, figure)]), theme.NOTE_PT)
    names = list(first.index)
    plot = (
        p9.ggplot(rows, p9.aes("size_bytes", y))
        + p9.annotate(
            "rect", xmin=span.value(-0.1), xmax=max(_outrunning_bytes(rows), span.value(-0.1)), ymin=axis.low,
            ymax=axis.high * 9, fill=theme.BAND,
        )
        + p9.geom_ribbon(
            p9.aes(ymin=f"{y}_low", ymax=f"{y}_high", fill="series"), data=known, alpha=0.3, show_legend=False
        )
        + p9.geom_line(p9.aes(color="series", linetype="series"), size=0.7)
        + span.scale()
        + p9.scale_y_continuous(
            trans="log10" if axis.log else "identity", limits=(axis.low, axis.high), breaks=axis.breaks,
            labels=ticks(axis.breaks), expand=(0, 0, 0.01, 0), oob=keep,
        )
        + p9.scale_color_manual(values=colours, limits=names, name=None)
        + p9.scale_fill_manual(values=colours, limits=names, name=None)
        + p9.scale_linetype_manual(values=linetypes, limits=names, name=None)
        + p9.guides(color=p9.guide_legend(ncol=1), linetype=p9.guide_legend(ncol=1))
        + p9.labs(
            title=wrapped(figure.title, theme.BASE_PT + 2.4), subtitle=subtitle, caption=notes,
            x=LABELS[figure.x], y=axis.title(LABELS[y]),
        )
        + theme.ddlbench_theme(3.1 + 0.13 * (subtitle.count("\n") + notes.count("\n")) + 0.2 * len(first))
    )  # fmt: skip
    plot += p9.theme(legend_title=p9.element_blank())
    for layer in _rates(rows, span, links) if y == "throughput_mbit" else []:
        plot += layer
    return plot


def _rates(rows: pd.DataFrame, span: XAxis, links: list[str]) -> list[Any]:
    """A dotted line at the nominal rate of each link, with the number."""
    rates = rows.drop_duplicates("link")[["link", "bandwidth_mbit"]]
    rates = rates.assign(at=span.low, text=[f"link: {rate:,.10g} Mbit/s" for rate in rates["bandwidth_mbit"]])
    layers: list[Any] = []
    for number, link in enumerate(links):
        rate = rates[rates["link"] == link]
        colour = theme.COLOURS[number]
        layers += [
            p9.geom_hline(yintercept=rate["bandwidth_mbit"].iloc[0], color=colour, linetype="dotted", size=0.6),
            p9.geom_text(
                p9.aes("at", "bandwidth_mbit", label="text"), data=rate, inherit_aes=False, color=colour,
                size=_RATE_PT, ha="left", va="bottom",
            ),
        ]  # fmt: skip
    return layers


def how_probed(rows: pd.DataFrame) -> list[str]:
    """Describe how messages were measured.

    Args:
        rows: from `messages`.

    Returns:
        Sentences: estimator, emulated or real, host, dilation and what it does to the time of software, transport,
        which messages the emulation does not limit, whether NetPIPE is missing.
    """
    ours = rows[rows["tool"] == OURS]
    factors, bands = values_of(rows, "dilation"), bounds_of_medians(ours["repetitions"])
    words = [
        f"Lines: the median of {span_of(ours['repetitions'])} repetitions{'; bands: ' * bool(bands)}{bands}.",
        f"Transport {listed(values_of(rows, 'transport'))}.",
        machine(rows),
        f"Time dilation {listed(factors)}"
        + ("." if factors == [1] else ": links are that much slower, and times are divided by it."),
        *_divided_software(ours),
    ]
    if outrunning := _outrunning_bytes(rows):
        words.append(
            f"Shaded: messages of up to {outrunning:,} bytes, some of which outrun the emulated link, as it lets "
            "bursts pass; what is seen there is this machine rather than the network."
        )
    if NETPIPE not in set(rows["tool"]):
        words.append(
            "NetPIPE's own NPtcp did not run here (not installed or not asked for): its curve is missing."
        )
    return words


def _divided_software(ours: pd.DataFrame) -> list[str]:
    """Say how long the software of this machine takes for the smallest message: dilation divides that time too."""
    smallest = ours[(ours["size_bytes"] == ours["size_bytes"].min()) & (ours["dilation"] > 1)]
    software_us = smallest["dilation"] * (smallest["one_way_us"] - 1000 * smallest["latency_ms"])
    if not (software_us > 0).any():
        return []
    taken = f"{software_us.max():.3g} µs for the smallest message at most"
    instead = "instead, the links' latencies hold that of the networks' own software"
    return [f"Dilation divides the time of this machine's software too, {taken}; {instead}."]


def _outrunning_bytes(rows: pd.DataFrame) -> int:
    """The size of the largest message that was faster than its link; 0 if none was."""
    ours = rows[rows["tool"] == OURS]
    faster = ours[ours["size_bytes"] * 8 / ours["one_way_us"] > ours["bandwidth_mbit"] * (1 + _OUTRUN)]
    return int(faster["size_bytes"].max()) if len(faster) else 0


def message_caption(rows: pd.DataFrame, figure: Figure, claim: str = "") -> str:
    """Write the report's caption.

    Args:
        rows: from `messages`.
        figure: from the study's file.
        claim: a sentence for its end; it may be empty.

    Returns:
        reStructuredText.
    """
    sentences = [f"**{escaped(figure.title)}.** {escaped(_links_in_words(rows))}"]
    sentences += [escaped(words) for words in (*how_probed(rows), *of_what_is_shown(rows, figure))]
    if incomplete := values_of(rows[~rows["complete"].astype(bool)], "link"):
        sentences.append(f"Not complete: {escaped(listed(incomplete))}.")
    sentences += [*beside_the_paper(rows, figure), *([escaped(claim)] if claim else [])]
    return "\n".join(sentences) + "\n"


def _links_in_words(rows: pd.DataFrame) -> str:
    """The nominal links: `infiniband-edr: 100,000 Mbit/s, 0 ms, 0 % loss; ...`."""
    columns = ["link", "bandwidth_mbit", "latency_ms", "loss_percent"]
    words = [
        f"{link}: {rate:,.10g} Mbit/s, {latency:g} ms one way, {loss:g} % loss"
        for link, rate, latency, loss in rows[columns].drop_duplicates().itertuples(index=False)
    ]
    return f"Links: {'; '.join(words)}."


def nearest_size(rows: pd.DataFrame, size_bytes: float) -> int:
    """Find the measured message size that is closest to another size, on a logarithmic scale.

    Args:
        rows: from `messages`.
        size_bytes: the other size, at least 1.

    Returns:
        Bytes.
    """
    return int(min(set(rows["size_bytes"]), key=lambda size: abs(math.log(size / size_bytes))))
