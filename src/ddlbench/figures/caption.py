"""The texts beside a figure: how it was measured, what is missing and why, what the paper showed."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ddlbench.figures.words import counted, escaped, listed, span_of, values_of
from ddlbench.measurements.metrics import METRICS, OfRepetition
from ddlbench.plan.study import Figure

_BOUNDS = {"interval": "95 % intervals", "range": "the range of fewer than five"}
LINK_COLUMNS = ("bandwidth_mbit", "latency_ms", "loss_percent")
_MOST_WAITED_PERCENT = 5  # what threads of one host wait for each other
EXTRAPOLATED = ("epoch_time_s", "training_time_s", "training_time_ms")

# The conditions that all points of a figure share, in words: column -> text of a value, in this order.
CONDITIONS = {
    "model": "{}",
    "dataset": "{}",
    "image_shape": "{}",
    "batch_size": "batch {:.10g}",
    "batch_per_worker": "batch {:.10g} a worker",
    "workers": "{:g} workers",
    "bandwidth_mbit": "{:g} Mbit/s",
    "latency_ms": "{:g} ms one way",
    "loss_percent": "{:g} % loss",
    "sites": "{}",
    "epochs": "{:g} epochs",
    "framework": "{}",
    "strategy": "{}",
    "runtime": "{}",
    "devices": "{}",
}
WORDS = {
    "cpu": "CPU",
    "gpu": "GPU",
    "bare": "no container",
    "28x28x1": "28x28 pixels",
    "32x32x3": "32x32x3 pixels",
}
FABRICS = {
    "emulated": "emulated hosts and network",
    "loopback": "real host, loopback network",
    "ethernet": "real hosts, Ethernet",
    "infiniband": "real hosts, InfiniBand",
}


def caption(rows: pd.DataFrame, figure: Figure) -> str:
    """Write the report's caption of a figure. It states only what `rows` hold; every text from outside is escaped.

    Args:
        rows: the points that were drawn, from `rows.points`.
        figure: from the study's file.

    Returns:
        reStructuredText.
    """
    measured = rows[rows["status"] == "measured"]
    sentences = [f"**{escaped(figure.title)}.** {escaped(conditions(rows, figure))}."]
    sentences.append(
        f"{len(measured)} of {counted(len(rows), 'point')} measured; "
        + escaped(how_measured(rows, figure))
        + "."
    )
    if congestion := values_of(measured, "congestion_control"):
        sentences.append(f"TCP congestion control: {escaped(listed(congestion))}.")
    if (measured["epochs"] > 0).any():
        rates, momenta = listed(values_of(measured, "learning_rate")), listed(values_of(measured, "momentum"))
        sentences.append(
            f"Trained by stochastic gradient descent, learning rate {rates}, momentum {momenta}."
        )
    if backends := values_of(measured, "backend"):
        sentences.append(f"Links shaped by {escaped(listed(backends))}.")
    if unresolved := int(is_unresolved(measured).sum()):
        sentences.append(
            f"{counted(unresolved, 'point')} unresolved (faint): the interval is wider than asked for, or there are "
            "too few repetitions for one."
        )
    sentences.append(f"In the paper: {escaped(figure.caption)}")
    return "\n".join(sentences) + "\n" + _missing_list(rows, figure)


def conditions(rows: pd.DataFrame, figure: Figure) -> str:
    """List the conditions that all points share and the figure does not show elsewhere.

    Args:
        rows: the points that are drawn.
        figure: from the study's file; its x, lines and columns show the others.

    Returns:
        One line of text: `mlp, digits, batch 128, 2 workers, 400 Mbit/s, ...`.
    """
    shown = {figure.x, *figure.columns}
    if figure.lines and len(values_of(rows, figure.lines)) != 1:  # a single line has no legend
        shown.add(figure.lines)
    if "link" in shown:
        shown.update((*LINK_COLUMNS, "sites"))
    common = {column: values[0] for column in CONDITIONS if len(values := values_of(rows, column)) == 1}
    if common.get("epochs") == 0:  # nothing was trained, only timed
        del common["epochs"]
    if "batch_size" in common:
        common.pop("batch_per_worker", None)
    words = [_worded(CONDITIONS[column], value) for column, value in common.items() if column not in shown]
    hosts = (
        rows[["vcpus", "memory_gb"]].drop_duplicates() if {"vcpus", "memory_gb"} <= set(rows) else rows[:0]
    )
    if len(hosts) == 1:
        vcpus, memory_gb = hosts.iloc[0]
        words.append(f"{vcpus:g} vCPU and {_memory(rows, memory_gb)} a host")
    return ", ".join(words)


def how_measured(rows: pd.DataFrame, figure: Figure, y: str | None = None) -> str:
    """Describe how the points were measured.

    Args:
        rows: from `rows.points`.
        figure: from the study's file.
        y: the column that is shown; None: the figure's.

    Returns:
        One line of text: emulated or real, dilation, repetitions, host, and whether times are extrapolated.
    """
    measured = rows[rows["status"] == "measured"]
    if measured.empty:
        return "nothing could be measured here"
    words = [listed(FABRICS.get(str(fabric), str(fabric)) for fabric in values_of(measured, "fabric"))]
    words.append(f"time dilation {dilations(measured)}")
    words += waited(measured)
    words += shared_gpus(measured)
    words.append(estimated(measured, y or figure.y))
    if (y or figure.y) in EXTRAPOLATED:
        words.append(f"extrapolated from {span_of(measured['steps'])} measured steps a point")
    if engines := values_of(measured, "container_engine"):
        words.append(f"containers by {listed(engines)}")
    words += unequal_software(measured)
    words.append(f"host: {listed(values_of(measured, 'host')) or 'unknown'}")
    return "; ".join(word for word in words if word)


def estimated(measured: pd.DataFrame, y: str) -> str:
    """Say what a mark is, and what its bar is.

    Args:
        measured: points that were measured.
        y: the column that is shown.

    Returns:
        `all time by all steps of 5 to 7 repetitions in 5 to 7 launches, bars: 95 % intervals`.
    """
    of_repetitions = isinstance(METRICS.get(y), OfRepetition)
    kind = "median" if of_repetitions else "all time by all steps"
    what = f"{kind} of {span_of(measured['repetitions'])} repetitions"
    launches = measured["launches"].dropna() if "launches" in measured else measured["repetitions"][:0]
    if len(launches):
        what += f" in {span_of(launches)} launch{'es' * bool(launches.max() > 1)}"
    kinds = set(values_of(measured, "bounds"))
    bars = [words for kind, words in _BOUNDS.items() if kind in kinds]
    return f"{what}, bars: {' or '.join(bars)}" if bars else what


def is_unresolved(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Which points have a wider interval than was asked for; those of which nothing is known have not.

    Args:
        rows: of a table, or points that are drawn.

    Returns:
        One value for each row.
    """
    if "resolved" not in rows:
        return pd.Series(False, index=rows.index)
    return (
        rows["resolved"]
        .map(lambda value: value is not None and not pd.isna(value) and not value)
        .astype(bool)
    )


def waited(measured: pd.DataFrame) -> list[str]:
    """Say how long workers waited for cores that were theirs alone, if that may have changed a time.

    Args:
        measured: points that were measured.

    Returns:
        `workers waited up to 12 % of their time for their own cores`, where hosts share no core; empty below 5 %.
    """
    if "waited_percent" not in measured:
        return []
    alone = measured[(measured["dilation"] == 1) & (measured["waited_percent"] >= _MOST_WAITED_PERCENT)]
    most = alone["waited_percent"].max()
    return [f"workers waited up to {most:.0f} % of their time for their own cores"] if len(alone) else []


def shared_gpus(measured: pd.DataFrame) -> list[str]:
    """Describe how many workers shared a GPU.

    Args:
        measured: the rows that were measured.

    Returns:
        Phrases such as `2 workers share a GPU (2, 4 workers)`; empty if no GPU was shared.
    """
    counts = [count for count in values_of(measured, "workers_per_gpu") if count > 1]
    of = {count: values_of(measured[measured["workers_per_gpu"] == count], "workers") for count in counts}
    return [f"{count:g} workers share a GPU ({listed(workers)} workers)" for count, workers in of.items()]


def unequal_software(measured: pd.DataFrame) -> list[str]:
    """Describe what else differs between the runtimes that are compared.

    Args:
        measured: the rows that were measured.

    Returns:
        Phrases such as `interpreters differ (torch): 3.11.2 (docker), ...`; empty if nothing differs.
    """
    differences = []
    for column, what in (("python_version", "interpreters differ"), ("packages_sha256", "packages differ")):
        groups = measured.groupby("framework") if column in measured and "runtime" in measured else ()
        for framework, rows in groups:
            of = {
                value: values_of(rows[rows[column] == value], "runtime") for value in values_of(rows, column)
            }
            if len(of) > 1 and rows["runtime"].nunique() > 1:
                found = ", ".join(f"{value} ({listed(runtimes)})" for value, runtimes in of.items())
                differences.append(f"{what} ({framework}): {found}")
    return differences


def why_missing(row: Mapping[Any, Any], length: int = 64) -> str:
    """Give the reason why a point was not measured. Points with the same cause get the same words.

    Args:
        row: of the point; status, reason, memory_gb and devices are read.
        length: of the text at most, in characters.

    Returns:
        The reason, shortened with ` …` if it is too long.
    """
    if row["status"] == "does_not_fit":
        memory = row.get("memory_gb")
        return (
            "does not fit into memory"
            if memory is None or pd.isna(memory) or row.get("devices") == "gpu"
            else f"does not fit in {memory:g} GB"
        )
    reason = row.get("reason")
    if not isinstance(reason, str) or not reason:
        return "not measured"
    return reason if len(reason) <= length else reason[: length - 1].rsplit(" ", 1)[0] + " …"


def _missing_list(rows: pd.DataFrame, figure: Figure) -> str:
    """List the reasons why points are missing, each with its points."""
    missing = rows[rows["status"] != "measured"]
    if missing.empty:
        return ""
    lines = ["", f"Not measured ({counted(len(missing), 'point')}):", ""]
    reasons = missing["reason"].where(missing["reason"].notna(), "no reason given")
    for reason, points in missing.groupby(reasons, sort=True):
        names = [str(name) for name in dict.fromkeys(points["point_id"])]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"* {escaped(str(reason))}: {escaped(', '.join(names[:3]))}{more}")
    return "\n".join(lines) + "\n"


def dilations(measured: pd.DataFrame) -> str:
    """List the factors of time dilation.

    Args:
        measured: the rows that were measured.

    Returns:
        `1`, or `1 (1, 2 workers), 2 (3, 4 workers)` if the factors differ.
    """
    factors = {
        k: values_of(measured[measured["dilation"] == k], "workers") for k in values_of(measured, "dilation")
    }
    if len(factors) == 1:
        return listed(factors)
    noun = {k: "worker" if workers == [1] else "workers" for k, workers in factors.items()}
    return ", ".join(f"{k:g} ({listed(workers)} {noun[k]})" for k, workers in factors.items())


def _memory(rows: pd.DataFrame, studied_gb: float) -> str:
    """The memory of a host: as the study has it, or what it really had beside that."""
    had = [gb for gb in values_of(rows, "host_memory_gb") if gb < studied_gb]
    real = f"{min(had):g}" if len(had) == 1 else f"{min(had):g} to {max(had):g}" if had else ""
    return f"{real} GB (the study: {studied_gb:g} GB)" if had else f"{studied_gb:g} GB"


def _worded(text: str, value: Any) -> str:
    """A value of a condition in words."""
    if value == 1 and text.endswith((" workers", " epochs")):
        text = text[:-1]
    return WORDS.get(value) or text.format(value).replace("_", " ")
