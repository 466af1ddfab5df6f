"""The table of the network inside each runtime: the time of small messages, and the throughput of large ones."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotnine as p9

from ddlbench.figures.captions.estimates import bounds_of_medians
from ddlbench.figures.captions.paper import beside_the_paper
from ddlbench.figures.chart import number
from ddlbench.figures.table import table_picture
from ddlbench.figures.words import escaped, listed, span_of, values_of
from ddlbench.plan.study import Figure

NETWORKS = {
    "host": "host",
    "joined": "emulated hosts",
    "bridge": "bridge, NAT",
}
RUNTIMES = ("bare", "docker", "apptainer")
_NAMES = 2  # how many columns wide the networks' names are
_MEANING = (
    "One-way time of the smaller message and throughput of the larger one. On the host's own "
    "network both ends share the loopback; on emulated hosts each is in its network namespace, and the link between "
    "them is open; over the bridge an end without a container reaches one in Docker."
)


def runtime_table(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw a table: a line for each network, a column for each runtime, for latency and for throughput.

    Args:
        table: as in results/probes/runtimes.
        figure: from the study's file.

    Returns:
        The picture of the table, one-way times in µs and throughputs in Gbit/s; its data are `table`.
    """
    sizes = values_of(table, "size_bytes")
    quantities = (
        (sizes[0], "one_way_us", f"one way, {sizes[0]:,.0f} bytes (µs)"),
        (sizes[-1], "throughput_mbit", f"{sizes[-1]:,.0f} bytes (Gbit/s)"),
    )
    found = {
        (row["network"], row["runtime"], row["size_bytes"]): row
        for row in table.to_dict("records")
        if row["status"] == "measured"
    }
    cells: list[dict[str, Any]] = [
        {"column": (_NAMES - 1) / 2, "line": line, "at": line, "text": name, "bold": False}
        for line, name in enumerate(NETWORKS.values())
    ]
    for group, (size, quantity, words) in enumerate(quantities):
        first = _NAMES + group * len(RUNTIMES)
        cells.append({"column": first + 1, "line": -2, "at": -1.7, "text": words, "bold": True})
        for place, runtime in enumerate(RUNTIMES):
            column = first + place
            cells.append({"column": column, "line": -1, "at": -1.0, "text": runtime, "bold": True})
            for line, network in enumerate(NETWORKS):
                cell = _cell(found.get((network, runtime, size)), quantity)
                cells.append({"column": column, "line": line, "at": line, "bold": False, **cell})
    return table_picture(
        table,
        pd.DataFrame(cells).fillna({"note": ""}),
        [-0.5, len(NETWORKS) - 0.4],
        title=figure.title,
        note=_MEANING,
        caption=_how(table),
    )


def _cell(row: Mapping[Any, Any] | None, quantity: str) -> dict[str, str]:
    if row is None:
        return {"text": "", "note": "-"}
    unit = 1000 if quantity == "throughput_mbit" else 1
    value, low, high = (row[f"{quantity}{end}"] / unit for end in ("", "_low", "_high"))
    interval = "" if pd.isna(low) or pd.isna(high) else f"{number(low)} to {number(high)}"
    return {"text": number(value), "note": interval}


def _how(table: pd.DataFrame) -> str:
    measured = table[table["status"] == "measured"]
    bounds = bounds_of_medians(measured["repetitions"])
    words = [
        f"Median of {span_of(measured['repetitions'])} rounds, each with processes or containers of its own"
    ]
    if bounds:
        words.append(f"below it {bounds}")
    missing = table[table["status"] != "measured"]
    for reason, rows in missing.groupby("reason", sort=False):
        ways = "; ".join(
            f"{runtime}, {NETWORKS[network]}"
            for runtime, network in zip(rows["runtime"], rows["network"], strict=True)
        )
        words.append(f"not measured ({ways}): {reason}")
    return "; ".join([*words, f"host: {listed(values_of(measured, 'host'))}"])


def runtime_caption(rows: pd.DataFrame, figure: Figure) -> str:
    """Write the report's caption.

    Args:
        rows: as in results/probes/runtimes.
        figure: from the study's file.

    Returns:
        reStructuredText.
    """
    return (
        f"**{escaped(figure.title)}.** {escaped(_MEANING)}\n{escaped(_how(rows))}.\n"
        + "\n".join(beside_the_paper(rows, figure))
        + "\n"
    )
