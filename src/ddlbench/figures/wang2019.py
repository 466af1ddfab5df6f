"""Wang 2019: the throughput between two nodes, the cost of containers, and scaling to 64 GPUs."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import plotnine as p9

from ddlbench.figures import theme
from ddlbench.figures.captions.caption import caption as usual_caption
from ddlbench.figures.captions.conditions import computed_here
from ddlbench.figures.chart import category_chart, line_chart, wrapped
from ddlbench.figures.probe import OURS, message_caption, message_chart, messages, nearest_size
from ddlbench.figures.rows import points
from ddlbench.figures.words import escaped
from ddlbench.measurements.metrics import bounds_of
from ddlbench.plan.study import Figure

CLAIMED_PERCENT = 10  # the paper: Singularity trains so much faster than Docker
NAMES = {"infiniband-edr": "InfiniBand EDR", "ten-gigabit-tcp": "10 GbE"}
NETWORKS = {  # by the bandwidth of their links in config/links.yaml
    96800.0: "InfiniBand EDR",
    10000.0: "10 GbE",
}
REAL_NETWORKS = {"infiniband": "InfiniBand", "ethernet": "Ethernet"}  # by fabric, of a cluster
CLAIMED_EFFICIENCY = {"InfiniBand EDR": 89, "10 GbE": 65}  # percent of linear scaling with 64 GPUs
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
    are_gpus = rows["replay"].notna() | (rows["devices"] == "gpu")
    return plot + p9.labs(subtitle=subtitle, **{"x": "GPUs (number)"} if are_gpus.all() else {}) + taller


def verdict(rows: pd.DataFrame) -> str:
    """State the paper's claim (Wang 2019, figure 3) and, for each number of workers, what was measured here.

    The interval of a ratio is the widest that the intervals of both times allow. What CPUs do is no verdict on the
    claim, which is about GPUs; nor is what no runtime can change, as compute is replayed.

    Args:
        rows: from `rows.points`, epoch times in seconds.

    Returns:
        One sentence for the claim, and one for each number of workers; of CPUs and of replayed compute one more.
    """
    on_gpus = set(rows["devices"]) == {"gpu"}
    sentences = [
        f"Claimed, on GPUs: Singularity (now Apptainer) is about {CLAIMED_PERCENT} % faster than Docker.",
        *(_compared(rows[rows["workers"] == each], each, on_gpus) for each in sorted(set(rows["workers"]))),
    ]
    if computed_here(rows).empty:
        sentences.append(
            "Compute is replayed and takes the same time in all runtimes: this is no verdict on the claim."
        )
    elif not on_gpus:
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
    bounds = {bounds_of("epoch_time_s", each) for each in (docker, apptainer)}
    judged = (
        f"which {_judged(low, high)}" if bounds == {"interval"} else "from too few repetitions for a verdict"
    )
    words = f"Measured, {workers} {noun}: {faster:+.1f} % [{low:+.1f}, {high:+.1f}]"
    return f"{words}, {judged}." if on_gpus else f"{words}."


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


def scaling(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw throughput against the number of GPUs over both networks, with linear scaling and the verdict (figure 5).

    Args:
        table: as in results/tables; its points with one worker have no link and begin both lines.
        figure: from the study's file.

    Returns:
        The plot; its data are the rows of `rows.points`.

    Raises:
        ConfigError: as of `rows.points`.
    """
    if set(table["fabric"]) & set(REAL_NETWORKS):  # config/examples/wang2019_cluster.yaml
        rows, names = points(table, replace(figure, lines="fabric")), REAL_NETWORKS
    else:
        rows = points(_from_one_worker(table), figure)
        rows = rows.assign(point_id=rows.pop("of_point"))
        names = {name: NETWORKS.get(float(name), name) for name in rows["series"].cat.categories}
    rows = rows.assign(series=rows["series"].cat.rename_categories(names))
    plot = line_chart(rows, figure, legend="network of each GPU's host")
    alone = rows.loc[(rows["workers"] == 1) & rows[figure.y].notna(), figure.y]
    if len(alone):
        # At every number, as the line is none on an axis that is logarithmic alone.
        ideal = pd.DataFrame({"workers": range(1, int(rows["workers"].max()) + 1)})
        ideal = ideal.assign(**{figure.y: ideal["workers"] * alone.iloc[0]})
        plot += p9.geom_line(
            p9.aes("workers", figure.y), data=ideal, inherit_aes=False, linetype="dotted", color=theme.INK
        )
    text = wrapped(f"Dotted: linear scaling. {efficiencies(rows, figure.y)}", theme.NOTE_PT + 0.5)
    width, height = plot.theme.getp("figure_size")
    subtitle = f"{plot.labels.get('subtitle', '')}\n{text}"
    taller = p9.theme(figure_size=(width, height + 0.13 * (text.count("\n") + 1)))
    are_gpus = rows["replay"].notna() | (rows["devices"] == "gpu")
    return plot + p9.labs(subtitle=subtitle, **{"x": "GPUs (number)"} if are_gpus.all() else {}) + taller


def _from_one_worker(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the points of one worker once for each bandwidth, where its line begins; `of_point` is the id."""
    table = table.assign(of_point=table["point_id"])
    alone = table[table["bandwidth_mbit"].isna()]
    copies = [
        alone.assign(bandwidth_mbit=rate, point_id=[f"{name}-{rate:g}" for name in alone["point_id"]])
        for rate in sorted(table["bandwidth_mbit"].dropna().unique())
    ]
    return pd.concat([*copies, table[table["bandwidth_mbit"].notna()]], ignore_index=True)


def efficiencies(rows: pd.DataFrame, y: str) -> str:
    """State the paper's scaling efficiency with 64 GPUs (Wang 2019, figure 5), and ours with as many as were measured.

    Args:
        rows: of both lines, with their points of one worker.
        y: the column of throughputs.

    Returns:
        A sentence for each line.
    """
    sentences = []
    for name, line in rows[rows[y].notna()].groupby("series", observed=True, sort=False):
        one = line.loc[line["workers"] == 1, y]
        most = line.nlargest(1, "workers").iloc[0]
        if one.empty or most["workers"] == 1:
            continue
        percent = 100 * most[y] / (most["workers"] * one.iloc[0])
        in_paper = CLAIMED_EFFICIENCY.get(str(name))
        claimed = f" (in the paper {in_paper} % with 64)" if in_paper else ""
        sentences.append(f"{name}: {percent:.0f} % of linear with {most['workers']:g} GPUs{claimed}.")
    return " ".join(sentences) or "Efficiency: not measured."


def caption_of_scaling(rows: pd.DataFrame, figure: Figure) -> str:
    """Write the report's caption of figure 5, with the efficiencies.

    Args:
        rows: from `rows.points`.
        figure: from the study's file.

    Returns:
        reStructuredText.
    """
    return f"{usual_caption(rows, figure)}\n{escaped(efficiencies(rows, figure.y))}\n"


FIGURES: dict[str, Callable[[pd.DataFrame, Figure], p9.ggplot]] = {
    "wang2019_fig2": node_to_node,
    "wang2019_fig3": in_containers,
    "wang2019_fig5": scaling,
}
CAPTIONS: dict[str, Callable[[pd.DataFrame, Figure], str]] = {
    "wang2019_fig2": caption,
    "wang2019_fig3": caption_of_containers,
    "wang2019_fig5": caption_of_scaling,
}
