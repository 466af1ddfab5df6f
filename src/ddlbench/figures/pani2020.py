"""Pani 2020: how time, loss and accuracy depend on the batch size and the number of devices."""

from collections.abc import Callable

import pandas as pd
import plotnine as p9

from ddlbench.figures.chart import line_chart
from ddlbench.figures.rows import points
from ddlbench.plan.study import Figure


def quality(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw test loss (figure 1) or test accuracy (figure 2) against the batch size.

    Args:
        table: as in results/tables.
        figure: from the study's file; its `y` is the quantity.

    Returns:
        The plot, with a line for each series of the figure.

    Raises:
        ConfigError: as of `rows.points`.
    """
    return line_chart(points(table, figure), figure, legend=_legend(table))


def training_time(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw the training time against the batch size, in milliseconds as in the paper (figure 3).

    Args:
        table: as in results/tables, with training times in seconds.
        figure: from the study's file.

    Returns:
        The plot, with a line for each series of the figure.

    Raises:
        ConfigError: as of `rows.points`.
    """
    rows = points(table, figure, y="training_time_ms")
    return line_chart(rows, figure, y="training_time_ms", legend=_legend(table))


def _legend(table: pd.DataFrame) -> str:
    on_cpu = (table["devices"] == "cpu").all() and "replay" not in set(table.get("compute", ()))
    return "CPU workers" if on_cpu else "workers"


FIGURES: dict[str, Callable[[pd.DataFrame, Figure], p9.ggplot]] = {
    "pani2020_fig1": quality,
    "pani2020_fig2": quality,
    "pani2020_fig3": training_time,
}
