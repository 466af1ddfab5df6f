"""How a figure differs from the paper's, and what the paper shows."""

from collections.abc import Iterable

import pandas as pd

from ddlbench.figures.words import escaped
from ddlbench.plan.study import Deviation, Figure


def of_what_is_shown(rows: pd.DataFrame, figure: Figure) -> list[str]:
    """Say the deviations of the quantities that the figure shows: without them its picture would be misread.

    Args:
        rows: the points that are drawn.
        figure: from the study's file.

    Returns:
        Sentences.
    """
    return [each.text for each in that_hold(rows, figure) if each.shows]


def beside_the_paper(rows: pd.DataFrame, figure: Figure) -> list[str]:
    """Write what else differs from the paper, and what the paper shows; of a study without one, the study's own words.

    Args:
        rows: the points that are drawn.
        figure: from the study's file.

    Returns:
        Lines of reStructuredText, from outside and therefore escaped.
    """
    others = [each.text for each in that_hold(rows, figure) if not each.shows]
    differs, says = ("Differences from the paper: ", "In the paper: ") if figure.of_a_paper else ("", "")
    sentences = [differs + " ".join(map(escaped, others))] if others else []
    return [*sentences, says + escaped(figure.caption)]


def that_hold(rows: pd.DataFrame, figure: Figure) -> Iterable[Deviation]:
    """Choose the deviations that concern a point and a quantity that the figure shows.

    Args:
        rows: the points that are drawn.
        figure: from the study's file.

    Yields:
        Deviations, in the file's order.
    """
    measured = rows[rows["status"] == "measured"] if "status" in rows else rows
    if {"batch_size", "workers"} <= set(measured) and "batch_per_worker" not in measured:
        measured = measured.assign(batch_per_worker=measured["batch_size"] / measured["workers"])
    shown = {figure.x, figure.y, figure.lines}
    for each in figure.deviations:
        fits = pd.Series(True, index=measured.index)
        for column, values in each.where.items():
            fits &= measured[column].isin(values) if column in measured else False
        if fits.any() and (not each.shows or shown & set(each.shows)):
            yield each
