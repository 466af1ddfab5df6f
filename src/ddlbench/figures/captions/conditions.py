"""What the points of a figure share, in words: model, batch, workers, link, framework, host."""

from typing import Any

import pandas as pd

from ddlbench.figures.words import NAMES, listed, values_of
from ddlbench.measurements.host_columns import is_short_of_memory
from ddlbench.plan.study import Figure

LINK_COLUMNS = ("bandwidth_mbit", "latency_ms", "loss_percent")

# Column -> text of a value, in the order in which they are said. The data set has a sentence of its own.
CONDITIONS = {
    "model": "{}",
    "batch_size": "batch {:.10g}",
    "batch_per_worker": "batch {:.10g} a worker",
    "workers": "{:g} workers",
    "bandwidth_mbit": "{:g} Mbit/s",
    "latency_ms": "{:g} ms one way",
    "loss_percent": "{:g} % loss",
    "sites": "{}",
    "epochs": "{:g} epochs",
    "steps_per_epoch": "{:g} steps an epoch",
    "framework": "{}",
    "strategy": "{}",
    "runtime": "{}",
    "devices": "{}",
}
FABRICS = {
    "emulated": "emulated hosts and network",
    "loopback": "real host, loopback network",
    "ethernet": "real hosts, Ethernet",
    "infiniband": "real hosts, InfiniBand",
}


def conditions(rows: pd.DataFrame, figure: Figure) -> str:
    """List the conditions that all points share and the figure does not show elsewhere.

    Args:
        rows: the points that are drawn.
        figure: from the study's file; its x, lines and columns show the others.

    Returns:
        One line of text: `mlp, batch 128, 2 workers, 400 Mbit/s, ...`.
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
    if values_of(rows, "replay"):  # which device is said where it is said how it was measured
        common.pop("devices", None)
    words = [_worded(CONDITIONS[column], value) for column, value in common.items() if column not in shown]
    return ", ".join([*words, *_hosts(rows)])


def fabrics(rows: pd.DataFrame) -> str:
    """Say whether hosts and network are emulated or real.

    Args:
        rows: points that were measured.

    Returns:
        `emulated hosts and network`.
    """
    return listed(FABRICS.get(str(fabric), str(fabric)) for fabric in values_of(rows, "fabric"))


def computed_here(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out the points whose compute was replayed: this machine's cores, and so a host's vCPUs, say nothing of it.

    Args:
        rows: points that were measured.

    Returns:
        Those whose workers computed.
    """
    return rows[rows["replay"].isna()] if "replay" in rows else rows


def by_waiting(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Say which points had their compute replayed by waiting: their hosts share all cores and have no memory each.

    Args:
        rows: of a table.

    Returns:
        One value for each row; False where the table is an older one, which does not say.
    """
    if "replayed_compute_ms" not in rows:
        return pd.Series(False, index=rows.index)
    return rows["replayed_compute_ms"].notna()


def _hosts(rows: pd.DataFrame) -> list[str]:
    """What a host has, if it is the same for all points."""
    rows = rows[~by_waiting(rows)]
    if not {"vcpus", "memory_gb"} <= set(rows):
        return []
    hosts = rows[["vcpus", "memory_gb"]].drop_duplicates()
    if len(hosts) != 1:
        return []
    vcpus, studied_gb = hosts.iloc[0]
    processors = "" if computed_here(rows).empty else f"{vcpus:g} vCPU{'s' * (vcpus != 1)} and "
    return [f"{processors}{_memory(rows, studied_gb)} a host"]


def _memory(rows: pd.DataFrame, studied_gb: float) -> str:
    """The memory of a host: as the study has it, or what hosts really had beside that."""
    had = [min(gb, studied_gb) for gb in values_of(rows, "host_memory_gb")]
    if not any(is_short_of_memory({"host_memory_gb": gb, "memory_gb": studied_gb}) for gb in had):
        return f"{studied_gb:g} GB"
    real = " to ".join(dict.fromkeys(f"{gb:g}" for gb in (min(had), max(had))))
    return f"{real} GB (the study: {studied_gb:g} GB)"


def _worded(text: str, value: Any) -> str:
    """A value of a condition in words."""
    if value == 1 and text in ("{:g} workers", "{:g} epochs"):
        text = text[:-1]
    elif value == 1:
        text = text.replace(" steps ", " step ")
    return NAMES.get(value) or text.format(value).replace("_", " ")


def is_emulated(rows: pd.DataFrame) -> bool:
    """Say whether hosts are emulated.

    Args:
        rows: of a table.

    Returns:
        True if those of any row are.
    """
    return "emulated" in values_of(rows, "fabric")
