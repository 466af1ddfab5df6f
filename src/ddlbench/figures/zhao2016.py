"""Zhao 2016: training over slow, lossy and distant networks."""

from collections.abc import Callable

import pandas as pd
import plotnine as p9

from ddlbench.figures.chart import category_chart, line_chart
from ddlbench.figures.rows import points
from ddlbench.plan.study import Figure


def training_time(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Training time of each model against one property of the link (figures 5 to 10).

    Loss multiplies times by about ten, and the models differ by as much: the axis becomes logarithmic by itself.
    """
    return line_chart(points(table, figure), figure)


def accuracy(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Test accuracy of each model under every link condition: synchronous training should not feel the network."""
    return category_chart(points(table, figure), figure)


FIGURES: dict[str, Callable[[pd.DataFrame, Figure], p9.ggplot]] = {
    **{f"zhao2016_fig{number}": training_time for number in range(5, 11)},
    "zhao2016_accuracy": accuracy,
}
