"""Which option to measure next, and when to stop: by what a measurement is expected to gain for the choice."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from ddlbench.prediction.answer import Answer
from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.choice import Goal, Option, choose
from ddlbench.prediction.estimate import was_measured
from ddlbench.prediction.nearness import apart
from ddlbench.prediction.predictor import FEWEST, LEAST_NOISE, learn


class Advice(NamedTuple):
    """What to do next.

    Attributes:
        cell: to measure; None: stop.
        why: it, or why to stop.
        options: as of `choose`; empty if too little was measured to rank any.
        gain: by how much of the best option's value the choice is expected to get better; infinite: an option may be
            better of which nothing is known.
    """

    cell: Cell | None
    why: str
    options: tuple[Option, ...] = ()
    gain: float = 0.0


def advise(
    measured: Sequence[Measured],
    cells: Sequence[Cell],
    goal: Goal,
    *,
    sureness: float,
    unfit: Sequence[Cell] = (),
    repeatable: Collection[Cell] = (),
) -> Advice:
    """Choose the next option to measure.

    Args:
        measured: cells with their times, of the options and of others.
        cells: the options.
        goal: what is wanted.
        sureness: the probability of being the best at which a choice is certain enough, between 0 and 1.
        unfit: cells that did not fit into a host's memory. If it had less than an option's host, that one may still be
            chosen; it is not measured again.
        repeatable: the options that may be measured again, until they are known as exactly as can be.

    Returns:
        What to measure, or why to stop.
    """
    too_large = {replace(cell, memory_gb=None) for cell in unfit}
    untried = [
        cell
        for cell in cells
        if replace(cell, memory_gb=None) not in too_large and not was_measured(measured, cell)
    ]
    if len(measured) < FEWEST:
        if not untried:
            return Advice(None, "nothing is left to measure, and too little was measured to choose")
        known = [each.cell for each in measured]
        return Advice(_most_distant(untried, known), "too little is known to predict anything")
    options = tuple(choose(learn(measured), measured, cells, goal, unfit))
    again = [
        each.estimate.cell
        for each in options
        if each.estimate.is_measured
        and each.estimate.cell in repeatable
        and each.estimate.deviation > LEAST_NOISE
    ]
    return most_helpful(options, [*untried, *again], goal, sureness)


def most_helpful(
    options: tuple[Option, ...], measurable: Sequence[Cell], goal: Goal, sureness: float
) -> Advice:
    """Choose among options that were ranked.

    Args:
        options: as of `choose`.
        measurable: the cells among them that can be measured, for the first time or again.
        goal: what is wanted.
        sureness: as of `advise`.

    Returns:
        What to measure, or why to stop.
    """
    answer = Answer(options, goal, "step", {}, [])
    if unknown := [each for each in _unknown(options, answer) if each.estimate.cell in measurable]:
        first = min(unknown, key=lambda option: option.value)
        return Advice(
            first.estimate.cell, "it may be the best, and too little is known of it", options, math.inf
        )
    if not measurable:
        return Advice(None, "every option was measured", options)
    if not answer.allowed and (unrated := _unrated(options, measurable, goal)):
        first = min(unrated, key=lambda option: option.value)
        return Advice(first.estimate.cell, "no accuracy is known yet", options, math.inf)
    if not answer.allowed:
        return Advice(None, "no option is within the limits", options)
    best = answer.allowed[0]
    if best.probability >= sureness:
        return Advice(None, "the choice is certain enough", options)
    helpful = max(
        (each for each in answer.allowed if each.estimate.cell in measurable),
        key=lambda option: option.gain,
        default=None,
    )
    if helpful is None or helpful.gain <= 0:
        return Advice(None, "no measurement is expected to change the choice", options)
    share = helpful.gain / best.value if best.value else 0.0
    why = f"the choice is expected to be {100 * share:.2g} % better for it"
    if helpful.estimate.is_measured:
        why = f"measured again, as {why}"
    return Advice(helpful.estimate.cell, why, options, share)


def _unknown(options: Sequence[Option], answer: Answer) -> list[Option]:
    """Options too far from what was measured whose interval (nobody tried it so far away) reaches below the best."""
    best = answer.allowed[0].value if answer.allowed else math.inf
    return [
        each
        for each in options
        if each.is_unknown and each.value * each.estimate.low_ms < best * each.estimate.time_ms
    ]


def _unrated(options: Sequence[Option], measurable: Sequence[Cell], goal: Goal) -> list[Option]:
    """Options that are left out because nobody knows which accuracy they reach."""
    if goal.accuracy_percent is None:
        return []
    return [
        each
        for each in options
        if each.fits and each.estimate.accuracy_percent is None and each.estimate.cell in measurable
    ]


def _most_distant(cells: Sequence[Cell], known: Sequence[Cell]) -> Cell:
    """The cell that is least like those that are known; of several the first."""
    return max(cells, key=lambda cell: min((apart(cell, other) for other in known), default=0.0))
