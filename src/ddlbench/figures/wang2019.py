"""Wang 2019: the throughput between two nodes, and the cost of containers."""

from collections.abc import Callable

import pandas as pd
import plotnine as p9

from ddlbench.figures import theme
from ddlbench.figures.captions.caption import caption as usual_caption
from ddlbench.figures.chart import category_chart, wrapped
from ddlbench.figures.probe import OURS, message_caption, message_chart, messages, nearest_size
from ddlbench.figures.rows import points
from ddlbench.figures.words import escaped
from ddlbench.plan.study import Figure

CLAIMED_PERCENT = 10  # the paper: Singularity trains so much faster than Docker
NAMES = {"infiniband-edr": "InfiniBand EDR", "ten-gigabit-tcp": "10 GbE"}
CLAIMED_RATIO, CLAIMED_BYTES = 14, 1_000_000  # "while the message size is 1000 Kbytes"


def node_to_node(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw throughput against message size for InfiniBand and 10 GbE (figure 2), with the paper's ratio and ours.

    Args:
        table: as in results/probes/point_to_point, of both links.
        figure: from the study's file.

    Returns:
        The plot; its data are the rows of `probe.messages`.
    """
    rows = messages(table, figure, NAMES)
    return message_chart(rows, figure, claim(rows))


def claim(rows: pd.DataFrame) -> str:
    """State the paper's claim (Wang 2019, figure 2) beside the ratio of the emulated links, which was set.

    Args:
        rows: from `probe.messages`, with both links.

    Returns:
        Three sentences.
    """
    ours = rows[rows["tool"] == OURS]
    size = nearest_size(ours, CLAIMED_BYTES)
    at = ours[ours["size_bytes"] == size].set_index("link")
    fast, slow = (at.loc[link] for link in NAMES)
    nominal = fast["bandwidth_mbit"] / slow["bandwidth_mbit"]
    emulated = fast["throughput_mbit"] / slow["throughput_mbit"]
    return (
        f"Claimed: InfiniBand {CLAIMED_RATIO} times as fast at 1000 kB. Here the links' rates were set, "
        f"{nominal:.3g} times apart, and their latencies; at {size:,} bytes that makes {emulated:.3g} times. It is no "
        "measurement of InfiniBand."
    )


def caption(rows: pd.DataFrame, figure: Figure) -> str:
    """Write the report's caption of figure 2, with the claim.

    Args:
        rows: from `probe.messages`, with both links.
        figure: from the study's file.

    Returns:
        reStructuredText.
    """
    return message_caption(rows, figure, claim(rows))


def in_containers(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw the mean epoch time without a container, in Docker and in Apptainer (figure 3), with the verdict.

    Args:
        table: as in results/tables.
        figure: from the study's file.

    Returns:
        The plot; its data are the rows of `rows.points`, with the place of each mark.

    Raises:
        ConfigError: as of `rows.points`.
    """
    rows = points(table, figure)
    plot = category_chart(rows, figure)
    text = wrapped(verdict(rows), theme.NOTE_PT + 0.5)
    width, height = plot.theme.getp("figure_size")
    subtitle = f"{plot.labels.get('subtitle', '')}\n{text}"
    taller = p9.theme(figure_size=(width, height + 0.13 * (text.count("\n") + 1)))
    return plot + p9.labs(subtitle=subtitle) + taller


def verdict(rows: pd.DataFrame) -> str:
    """State the paper's claim (Wang 2019, figure 3) and, for each number of workers, what was measured here.

    The interval of a ratio is the widest that the intervals of both times allow. What CPUs do is no verdict on the
    claim, which is about GPUs.

    Args:
        rows: from `rows.points`, epoch times in seconds.

    Returns:
        One sentence for the claim, and one for each number of workers; of CPUs one more.
    """
    on_gpus = set(rows["devices"]) == {"gpu"}
    sentences = [
        f"Claimed, on GPUs: Singularity (now Apptainer) is about {CLAIMED_PERCENT} % faster than Docker.",
        *(_compared(rows[rows["workers"] == each], each, on_gpus) for each in sorted(set(rows["workers"]))),
    ]
    if not on_gpus:
        sentences.append("On CPUs this is no verdict on the claim.")
    return " ".join(sentences)


def _compared(same: pd.DataFrame, workers: int, on_gpus: bool) -> str:
    """One number of workers: how much faster Apptainer is than Docker; on GPUs with a verdict."""
    times = same.set_index("runtime")
    noun = "worker" if workers == 1 else "workers"
    if (
        not {"docker", "apptainer"} <= set(times.index)
        or times.loc[["docker", "apptainer"], "epoch_time_s"].isna().any()
    ):
        return f"{workers} {noun}: not measured in both."
    docker, apptainer = times.loc["docker"], times.loc["apptainer"]
    if pd.isna(docker["epoch_time_s_low"]) or pd.isna(apptainer["epoch_time_s_low"]):
        return f"{workers} {noun}: measured once, which says nothing of spread."
    faster, low, high = (
        100 * (docker[f"epoch_time_s{of_docker}"] / apptainer[f"epoch_time_s{of_apptainer}"] - 1)
        for of_docker, of_apptainer in (("", ""), ("_low", "_high"), ("_high", "_low"))
    )
    judged = f", which {_judged(low, high)}" if on_gpus else ""
    return f"Measured, {workers} {noun}: {faster:+.1f} % [{low:+.1f}, {high:+.1f}]{judged}."


def _judged(low: float, high: float) -> str:
    """Say whether an interval, in percent, agrees with the claim."""
    if low <= CLAIMED_PERCENT <= high:
        return "cannot tell the claim from no difference" if low <= 0 <= high else "agrees with the claim"
    return "contradicts the claim: no difference is seen" if low <= 0 <= high else "contradicts the claim"


def caption_of_containers(rows: pd.DataFrame, figure: Figure) -> str:
    """Write the report's caption of figure 3, with the verdict.

    Args:
        rows: from `rows.points`.
        figure: from the study's file.

    Returns:
        reStructuredText.
    """
    return f"{usual_caption(rows, figure)}\n{escaped(verdict(rows))}\n"


FIGURES: dict[str, Callable[[pd.DataFrame, Figure], p9.ggplot]] = {
    "wang2019_fig2": node_to_node,
    "wang2019_fig3": in_containers,
}
CAPTIONS: dict[str, Callable[[pd.DataFrame, Figure], str]] = {
    "wang2019_fig2": caption,
    "wang2019_fig3": caption_of_containers,
}
