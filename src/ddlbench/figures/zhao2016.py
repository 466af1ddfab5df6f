"""Zhao 2016: training over slow, lossy and distant networks."""

from collections.abc import Callable

import pandas as pd
import plotnine as p9

from ddlbench.figures.chart import category_chart, line_chart
from ddlbench.figures.rows import points
from ddlbench.plan.study import Figure


def training_time(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw the training time of each model against one property of the link (figures 5 to 10).

    With loss, times are about ten times longer and differ as much between models, so the axis becomes logarithmic.

    Args:
        table: as in results/tables.
        figure: from the study's file; its `x` is the property.

    Returns:
        The plot, with a line for each model.

    Raises:
        ConfigError: as of `rows.points`.
    """
    return line_chart(points(table, figure), figure)


def accuracy(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw the test accuracy of each model for every link. In synchronous training it should not depend on the link.

    Args:
        table: as in results/tables.
        figure: from the study's file.

    Returns:
        The plot, with a mark for each model and link.

    Raises:
        ConfigError: as of `rows.points`.
    """
    return category_chart(points(table, figure), figure)


FIGURES: dict[str, Callable[[pd.DataFrame, Figure], p9.ggplot]] = {
    **{f"zhao2016_fig{number}": training_time for number in range(5, 11)},
    "zhao2016_accuracy": accuracy,
}
