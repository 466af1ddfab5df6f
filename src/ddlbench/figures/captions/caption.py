"""The caption of a figure: the sentences in its picture, and the report's text."""

import pandas as pd

from ddlbench.figures.captions.conditions import conditions
from ddlbench.figures.captions.estimates import estimated, extrapolated
from ddlbench.figures.captions.hosts import hosts
from ddlbench.figures.captions.images import images
from ddlbench.figures.captions.missing import missing_list
from ddlbench.figures.captions.paper import beside_the_paper, of_what_is_shown
from ddlbench.figures.captions.software import engines, network_and_training, unequal_software
from ddlbench.figures.words import counted, escaped
from ddlbench.plan.study import Figure


def caption(rows: pd.DataFrame, figure: Figure) -> str:
    """Write the report's caption of a figure. It states only what `rows` hold; every text from outside is escaped.

    Args:
        rows: the points that were drawn, from `rows.points`.
        figure: from the study's file.

    Returns:
        reStructuredText.
    """
    rows = _distinct(rows)
    measured = rows[rows["status"] == "measured"]
    sentences = [
        f"**{escaped(figure.title)}.** {escaped(conditions(rows, figure))}.",
        f"{len(measured)} of {counted(len(rows), 'point')} measured.",
        *map(escaped, [*how_measured(rows, figure), *network_and_training(measured)]),
        *beside_the_paper(rows, figure),
    ]
    return "\n".join(sentences) + "\n" + missing_list(rows)


def how_measured(rows: pd.DataFrame, figure: Figure, y: str | None = None) -> list[str]:
    """Describe how the points were measured: what whoever looks at the picture must know.

    Args:
        rows: from `rows.points`.
        figure: from the study's file.
        y: the column that is shown; None: the figure's.

    Returns:
        Sentences: marks, what times are extrapolated to, deviations of what is shown, images, hosts, software.
    """
    measured = _distinct(rows[rows["status"] == "measured"])
    if measured.empty:
        return ["Nothing could be measured here."]
    shown = y or figure.y
    return [
        *estimated(measured, shown),
        *extrapolated(measured, shown),
        *of_what_is_shown(measured, figure),
        *images(measured, shown),
        *hosts(measured, shown),
        *engines(measured),
        *unequal_software(measured),
    ]


def _distinct(rows: pd.DataFrame) -> pd.DataFrame:
    """Each point once: one worker, who has no link, may begin the lines of several."""
    return rows.drop_duplicates(["point_id", *(["epoch"] if "epoch" in rows else [])])
