"""What the configuration wants of a choice: as a question over HTTP says it, checked before anything is measured."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from ddlbench.errors import ConfigError
from ddlbench.plan import Point
from ddlbench.plan.settings import Recommend
from ddlbench.prediction.choice import Goal
from ddlbench.prediction.prices import read_prices
from ddlbench.prediction.question import Unanswerable
from ddlbench.recommender.active.options import cell_of
from ddlbench.recommender.inquiry import Inquiry, countable, wanted

PRICES = Path("config/prices.yaml")


def goal_of(
    asked: Recommend, options: Sequence[Point], today: date, root: Path = Path()
) -> tuple[Goal, list[str]]:
    """Find out what is wanted.

    Args:
        asked: the question.
        options: the points to choose from.
        today: the day by which a price is old.
        root: the repository, for its prices.

    Returns:
        The goal, and what is doubtful about its price.

    Raises:
        ConfigError: something in it does not fit; names it.
    """
    cell = cell_of(options[0])
    prices = read_prices(root / PRICES, root) if "machine" in asked.goal else {}
    try:
        goal = wanted(Inquiry(batch_size=cell.batch_size, **asked.goal), "step", prices)  # type: ignore[arg-type]
    except Unanswerable as error:
        raise ConfigError(f"recommend: goal: {error.key}: {error.problem}") from None
    return countable(goal, "step", cell, today)
