"""The bars of a chart: bounds of repetitions, and lighter ones that the emulation's own error makes longer."""

from typing import Any

import pandas as pd
import plotnine as p9

from ddlbench.figures.captions.emulation_error import has_systematic_error
from ddlbench.measurements.host_columns import own_error

_LIGHT = 0.35


def bars(drawn: pd.DataFrame, y: str, width: float) -> list[Any]:
    """Draw the bounds of points that have them.

    Args:
        drawn: the points, with `place` on the x axis.
        y: the column that is shown.
        width: of the caps, in the x axis' own units.

    Returns:
        Layers of a plot.
    """
    known = drawn[drawn[f"{y}_low"].notna() & drawn[f"{y}_high"].notna()]
    layers = [_layer(known, f"{y}_low", f"{y}_high", width, 1.0)]
    if has_systematic_error(drawn, y):
        wide = drawn.assign(**dict(zip(("widest_low", "widest_high"), widest(drawn, y), strict=True)))
        wide = wide[wide["systematic_error_percent"].notna()]
        layers.insert(0, _layer(wide, "widest_low", "widest_high", width, _LIGHT))
    return layers


def widest(rows: pd.DataFrame, y: str) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """Compute bounds that hold the emulation's own error too, and that of its threads, where it is known.

    Args:
        rows: from `rows.points`.
        y: the column that is shown.

    Returns:
        Lower and upper bounds; those of repetitions, or the values themselves, where nothing else is known.
    """
    low, high = (rows[f"{y}_{end}"].fillna(rows[y]).astype(float) for end in ("low", "high"))
    if not has_systematic_error(rows, y):
        return low, high
    factors = [own_error(row) for row in rows.to_dict("records")]
    return low / factors, high * factors


def _layer(points: pd.DataFrame, low: str, high: str, width: float, opacity: float) -> p9.geom_errorbar:
    bar = p9.aes("place", ymin=low, ymax=high, color="series")
    return p9.geom_errorbar(
        bar, data=points, inherit_aes=False, width=width, size=0.6, alpha=opacity, show_legend=False
    )
