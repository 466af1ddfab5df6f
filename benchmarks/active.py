"""How many points must be measured until the recommended workers are right, chosen by what they gain, and at random.

python -m benchmarks active [--draws 5] [--tables FOLDER] [--foreign FILE]

The tables are those of a finished `make run`; FILE is what `ddlbench import` made of a table of others. Nothing is
measured: a point that is chosen gets its time from the table. Both orders begin with the same few points and answer by
the same predictor. A question is a group of cells that differ in the number of workers alone.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.common import ROOT, benchmark, options, row, save
from benchmarks.prediction import chosen_by, questions
from ddlbench.errors import DdlbenchError
from ddlbench.prediction.cell import Measured
from ddlbench.prediction.choice import Goal, Option, choose
from ddlbench.prediction.measured import from_files
from ddlbench.prediction.predictor import Predictor, learn
from ddlbench.recommender.active.advice import most_helpful

START = 8  # points that both orders begin with
BATCH = 3  # points between two fits of the predictor
ENOUGH = 0.95  # of the questions answered rightly


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, draws=5, tables=str(ROOT / "results" / "tables"), foreign="")
    files = [Path(asked.foreign)] if asked.foreign else sorted(Path(asked.tables).glob("*.csv"))
    measured = from_files(files).measured
    if len(questions(measured)) < 3:
        raise DdlbenchError(f"{len(measured)} cells are too few questions: `make run` measures more")
    needed = [(_needed(measured, seed, True), _needed(measured, seed, False)) for seed in range(asked.draws)]
    ours, random = (mean(each[i] for each in needed) for i in (0, 1))
    count = f"{len(measured)} cells, {len(questions(measured))} questions, {asked.draws} draws"
    found = row(
        "active measurement: points until the choice is right in 95 % of cells, by those in random order",
        at_least="0.5",
        measured=f"{ours / random:.2f} ({ours:.1f} and {random:.1f} points)",
        peer=count + chosen_by(measured),
        met=ours <= 0.5 * random and not chosen_by(measured),
    )
    save("active", [found], {"cells": len(measured), "points": needed})


def _needed(measured: Sequence[Measured], seed: int, is_active: bool) -> int:
    """Points, those of the start too, until enough questions are answered rightly; all, if that never happens."""
    order = list(np.random.default_rng(seed).permutation(len(measured)))
    known, rest = order[:START], order[START:]
    while rest:
        learned = [measured[i] for i in known]
        ranked = _ranked(learn(learned), learned, measured)
        if mean(map(_is_right, questions(measured), ranked)) >= ENOUGH:
            break
        chosen = _chosen(measured, rest, ranked) if is_active else []
        chosen = [*chosen, *(i for i in rest if i not in chosen)][:BATCH]
        known += chosen
        rest = [i for i in rest if i not in chosen]
    return len(known)


def _ranked(
    predictor: Predictor, learned: Sequence[Measured], measured: Sequence[Measured]
) -> list[tuple[Option, ...]]:
    """The options of each question, ranked."""
    groups = questions(measured)
    return [tuple(choose(predictor, learned, [each.cell for each in group], Goal())) for group in groups]


def _is_right(group: Sequence[Measured], ranked: tuple[Option, ...]) -> bool:
    """Whether the first option is the fastest one; what is not known may not be taken."""
    times = {each.cell: each.time_ms for each in group}
    return not ranked[0].excluded and times[ranked[0].estimate.cell] <= min(times.values())


def _chosen(
    measured: Sequence[Measured], rest: Sequence[int], ranked: Sequence[tuple[Option, ...]]
) -> list[int]:
    """The points of the questions that gain most by one more, the greatest gain first."""
    numbers = {measured[i].cell: i for i in rest}
    advised = []
    for each in ranked:
        untried = [option.estimate.cell for option in each if option.estimate.cell in numbers]
        advice = most_helpful(each, untried, Goal(), sureness=1.0)
        if advice.cell is not None:
            advised.append((advice.gain, numbers[advice.cell]))
    return list(dict.fromkeys(number for _, number in sorted(advised, reverse=True)))


if __name__ == "__main__":
    benchmark(main)
