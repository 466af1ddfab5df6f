"""Measuring the options of a question, one after another, until the choice is certain or the budget is used up."""

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.measurements.statistics import is_of_a_fixed_number
from ddlbench.plan import Point, words
from ddlbench.plan.settings import Recommend
from ddlbench.prediction.answer import Answer, as_json, in_words
from ddlbench.prediction.choice import Goal
from ddlbench.prediction.estimate import was_measured
from ddlbench.prediction.measured import from_files
from ddlbench.recommender.active.advice import Advice, advise
from ddlbench.recommender.active.options import cell_of

Measure = Callable[[Point, bool], Path]


class Ended(NamedTuple):
    """How measuring ended.

    Attributes:
        advice: the last one, whose `why` says why nothing more was measured.
        tables: of the options that were measured.
        steps: for each measurement its point, and why it was measured; in their order.
    """

    advice: Advice
    tables: list[Path]
    steps: list[dict[str, Any]]


def measure_for_choice(
    asked: Recommend, goal: Goal, options: Sequence[Point], tables: Sequence[Path], measure: Measure
) -> Ended:
    """Measure what helps the choice most.

    Args:
        asked: the question, when to stop, and the budget.
        goal: what is wanted.
        options: the points to choose from.
        tables: of what was measured before.
        measure: measures a point, for the first time or once more as often as it was, and gives its table.

    Returns:
        How it ended. Options that could neither be measured nor found too large are not among the advice's.

    Raises:
        DdlbenchError: no option could be measured or found too large.
    """
    began = monotonic()
    points = {cell_of(point): point for point in options}
    # A training has as many repetitions as the others of its figure, so that all have the same seeds.
    repeatable = {cell for cell, point in points.items() if not is_of_a_fixed_number(point.as_dict())}
    own: list[Path] = []
    steps: list[dict[str, Any]] = []
    while True:
        known = from_files([*own, *tables])  # what was measured again is in both, and counts by the first
        advice = advise(
            known.measured,
            list(points),
            goal,
            sureness=asked.sureness_percent / 100,
            unfit=known.unfit,
            repeatable=repeatable,
        )
        used_up = _used_up(asked, len(steps), (monotonic() - began) / 60)
        if advice.cell is None or used_up:
            ended = advice if advice.cell is None else advice._replace(cell=None, why=str(used_up))
            return Ended(ended, own, steps)
        point = points[advice.cell]
        print(f"next: {words(point)}: {advice.why}", file=sys.stderr, flush=True)
        again = was_measured(known.measured, advice.cell)
        table = measure(point, again)
        own = [*(each for each in own if each != table), table]
        is_known = from_files([*own, *tables]) != known
        step = {"point": point.id, "why": advice.why, "gain": _finite(advice.gain)}
        steps.append(step | {"was_measured": is_known})
        if not is_known:  # its link stalls, for instance: it is not tried once more
            print(f"{words(point)}: it was not measured; see {table}", file=sys.stderr, flush=True)
            repeatable.discard(advice.cell)
            if not again:
                del points[advice.cell]
            if not points:
                raise DdlbenchError(f"none of the options was measured; see {table}")


def _used_up(asked: Recommend, points: int, minutes: float) -> str | None:
    if points >= asked.budget_points:
        return f"the budget of {asked.budget_points} points is used up"
    return f"the budget of {asked.budget_min:g} minutes is used up" if minutes >= asked.budget_min else None


def write_answer(file: Path, asked: Recommend, goal: Goal, warnings: Sequence[str], ended: Ended) -> None:
    """Write the answer, and print it for people.

    Args:
        file: where it goes, as JSON: the question, its goal, why measuring stopped, what was tried, and the options as
            of `ddlbench recommend --json`.
        asked: the question.
        goal: what was wanted.
        warnings: of the price.
        ended: how measuring ended.

    Raises:
        DdlbenchError: the disk is full.
    """
    answer = Answer(ended.advice.options, goal, "step", {}, warnings)
    said = {"question": dict(asked.question), "goal": dict(asked.goal)}
    content = {**said, "stopped": ended.advice.why, "measured": ended.steps}
    write_atomically(file, json.dumps(content | as_json(answer), indent=1, allow_nan=False) + "\n")
    print(f"stopped: {ended.advice.why}\n{in_words(answer)}", file=sys.stderr, flush=True)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
