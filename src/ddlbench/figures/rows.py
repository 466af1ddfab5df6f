"""The rows of a table that a figure shows: derived columns, series in legend order, no two points at one place."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from pandas.api.types import is_list_like, is_numeric_dtype

from ddlbench.devices.device import without_origin
from ddlbench.errors import ConfigError, nearest
from ddlbench.figures.captions.conditions import LINK_COLUMNS
from ddlbench.figures.words import NAMES
from ddlbench.measurements.metrics import METRICS
from ddlbench.plan.catalogue import BETWEEN_MACHINES
from ddlbench.plan.study import Figure

# If a figure holds more than one value of such a column, each value has a line of its own.
SETUP_COLUMNS = ("framework", "strategy", "runtime", "devices", "compute", "fabric")
# Two points that differ in none of these columns are one point of a figure.
POINT_COLUMNS = (
    *SETUP_COLUMNS,
    *(
        "model",
        "dataset",
        "image_shape",
        "batch_size",
        "workers",
        "vcpus",
        "memory_gb",
        *LINK_COLUMNS,
        "sites",
    ),
    *("congestion_control", "learning_rate", "momentum", "epochs", "steps_per_epoch", "seed"),
)


def points(table: pd.DataFrame, figure: Figure, *, y: str | None = None) -> pd.DataFrame:
    """Choose the rows of a table that a figure shows.

    Args:
        table: as in results/tables, any number of grids.
        figure: from the study's file.
        y: the column to show; None: the figure's. `<name>_ms` is made from `<name>_s` if the table has only that.

    Returns:
        One row for each point (and epoch), in drawing order. Columns: the point's, `y`, `y`_low, `y`_high (its
        bounds), status, reason, repetitions, dilation, ... and `series`, the legend's text. A point without a value
        keeps its row, with `y` empty.

    Raises:
        ConfigError: the table lacks a column, no point matches, or two different points have the same place.
    """
    y = y or figure.y
    rows = _with_derived_columns(table, y)
    for column in filter(None, (figure.x, y, figure.lines, *(figure.where or {}))):
        if column not in rows:
            raise ConfigError(
                f"figure {figure.name}: the table has no column {column!r}{nearest(column, rows.columns)}"
            )
    rows = matching(rows, figure.where or {})
    epoch = ["epoch"] if "epoch" in rows else []
    rows = rows.drop_duplicates(["point_id", *epoch])
    rows = rows[
        rows[figure.x].notna() | (figure.kind == "table")
    ]  # a point without a link has no place on a link's axis
    if rows.empty:
        raise ConfigError(
            f"figure {figure.name}: none of the {len(table)} points of its grids match {figure.where}"
        )
    other_metrics = {f"{metric}{end}" for metric in METRICS if metric != y for end in ("", "_low", "_high")}
    rows = rows[[column for column in rows if column not in other_metrics]]
    rows = rows.assign(series=_series(_with_device(rows, figure), figure))
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


def refuse_overlap(rows: pd.DataFrame, place: list[str], figure: Figure) -> None:
    """Check that no two points have the same place: the figure would hide how they differ.

    Args:
        rows: one for each point.
        place: the columns whose values are a point's place.
        figure: for the error.

    Raises:
        ConfigError: two points have the same place; names it, and the columns that differ.
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


def _with_derived_columns(table: pd.DataFrame, y: str) -> pd.DataFrame:
    """Add columns that can be derived: compute, the link in words, the batch of each worker, speed-up, milliseconds.

    A table says of compute that it is replayed, and by which device, and how many workers share a host; what it says
    nothing of was real, on hosts of one worker.
    """
    unsaid = [column for column in ("compute", "replay", "workers_per_host") if column not in table]
    rows = table.assign(**dict.fromkeys(unsaid))
    rows = rows.assign(
        compute=rows["compute"].where(rows["compute"].notna(), "real"),
        workers_per_host=rows["workers_per_host"].where(rows["workers_per_host"].notna(), 1).astype(int),
    )
    if "link" not in rows and set(LINK_COLUMNS) <= set(rows):
        texts = ("{:g} Mbit/s", "{:g} ms", "{:g} % loss")
        words = [
            ", ".join(
                text.format(value) for text, value in zip(texts, values, strict=True) if not pd.isna(value)
            )
            for values in rows[list(LINK_COLUMNS)].itertuples(index=False)
        ]
        if "sites" in rows:
            words = [
                word if pd.isna(sites) else sites for word, sites in zip(words, rows["sites"], strict=True)
            ]
        if {"fabric", "workers"} <= set(rows):
            alone = zip(words, rows["fabric"], rows["workers"], strict=True)
            words = [
                word or (fabric if fabric in BETWEEN_MACHINES and count > 1 else "")
                for word, fabric, count in alone
            ]
        rows = rows.assign(link=[word or "no link" for word in words])
    if "batch_size" in rows and "workers" in rows:
        shares = rows["batch_size"] / rows["workers"]
        rows = rows.assign(batch_per_worker=shares.astype(int) if (shares % 1 == 0).all() else shares)
    if y == "speedup" and y not in rows:
        rows = _with_speedup(rows)
    seconds = f"{y.removesuffix('_ms')}_s"
    if y not in rows and y.endswith("_ms") and seconds in rows:
        rows = rows.assign(**{y + end: rows[seconds + end] * 1000 for end in ("", "_low", "_high")})
        rows = rows.drop(columns=[seconds + end for end in ("", "_low", "_high")])
    return rows


def _with_speedup(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the speed-up: images per second relative to one worker's of the same line (shi2019, figures 4.3 and 4.4).

    The interval is the widest that those of both allow. Without a measured single worker there is no speed-up.
    """
    same = [
        column
        for column in (*SETUP_COLUMNS, "replay", "model", "dataset", "image_shape", "batch_per_worker")
        if column in rows
    ]
    rate, ends = "images_per_second", ("", "_low", "_high")
    replay = rows["replay"].where(rows["replay"].notna(), "none")  # what is empty is equal to nothing
    named = rows.assign(replay=replay)
    alone = named[rows["workers"] == 1].drop_duplicates(same).set_index(same)[[rate + end for end in ends]]
    one = named[same].join(alone, on=same)
    speedup = {
        "speedup": rows[rate] / one[rate],
        "speedup_low": rows[f"{rate}_low"] / one[f"{rate}_high"],
        "speedup_high": rows[f"{rate}_high"] / one[f"{rate}_low"],
    }
    is_one = rows["workers"] == 1
    lacks_one = (rows["status"] == "measured") & speedup["speedup"].isna()
    return rows.assign(
        **{name: values.mask(is_one & values.notna(), 1.0) for name, values in speedup.items()},
        reason=rows["reason"].astype(object).mask(lacks_one, "one worker alone is not measured"),
    )


def matching(rows: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """Select rows by the values of columns.

    Args:
        rows: of a table; it has the columns.
        where: column -> value or values. One worker has no link, and therefore matches every link.

    Returns:
        The rows that match all columns.
    """
    for column, asked in where.items():
        match = rows[column].isin(list(asked) if is_list_like(asked) else [asked])
        if column in LINK_COLUMNS:
            match |= rows[column].isna() & (rows["workers"] == 1)
        rows = rows[match]
    return rows


def _with_device(rows: pd.DataFrame, figure: Figure) -> pd.DataFrame:
    """Name the device of each row, where devices tell the lines apart; what was not replayed is this machine's.

    A replayed row needs no more words: that its emulation ran on processors says nothing of the device. How its times
    are known is said in the caption.
    """
    if figure.lines != "replay":
        return rows
    replayed = rows["replay"].notna()
    devices = rows["replay"].where(replayed, "this machine").map(without_origin)
    named = rows.assign(replay=devices, compute=None)
    return named.assign(devices=rows["devices"].astype(object).where(~replayed, None))


def _series(rows: pd.DataFrame, figure: Figure) -> pd.Categorical:
    """The legend's text of each row, in legend order: numbers by size, words in the order of the table."""
    setup = [column for column in SETUP_COLUMNS if column in rows and rows[column].nunique() > 1]
    columns = ([figure.lines] if figure.lines else []) + [
        column for column in setup if column != figure.lines
    ]
    columns = [column for column in columns if column != figure.x]
    keys = [
        tuple(
            f"{value:g}" if isinstance(value, int | float) else NAMES.get(value, str(value).replace("_", " "))
            for value in values
            if value is not None
        )
        for values in rows[columns].itertuples(index=False)
    ] or [()] * len(rows)
    texts = [", ".join(key) for key in keys] if columns else ["all"] * len(rows)
    order = rows.assign(text=texts)
    if figure.lines and is_numeric_dtype(rows[figure.lines]):
        order = order.sort_values(figure.lines, kind="stable")
    return pd.Categorical(texts, categories=list(dict.fromkeys(order["text"])), ordered=True)
