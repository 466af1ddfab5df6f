"""How good predictions and recommendations are where a random quarter of the measured cells is learned from.

python -m benchmarks prediction [--tables FOLDER] [--foreign FILE]

The tables are those of a finished `make run`. Numbers count only where no constant of the predictor was chosen by
them: the tables by which one was are in CHOSEN_BY, their rows say so, and none of these is met. FILE is what `ddlbench
import` made of a table of others: whole cells (batch size and latency) of it are left out, and the best number of
workers there is compared with that of the nearest cells.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks.common import ROOT, benchmark, options, row, save
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_json
from ddlbench.prediction.answer import Answer
from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.choice import Goal, Option, choose
from ddlbench.prediction.measured import from_files, from_tables
from ddlbench.prediction.predictor import Predictor, learn

SHARE = 0.25  # of the cells, that is learned from (of a foreign table: left out)
EXACT = 1.5  # upper by lower bound of a measurement, up to which it is called exact

# Hashes of the times in tables that were looked at while constants and terms of the predictor were chosen.
CHOSEN_BY = (
    "47ceaeed539f6385",
    "906c9c009a0e9ae9",
    "210df7ea270243f3",
    "c2c6894960a8ff4f",
    "23401d338ffa5823",
    "f462f8d296cadd8c",
    "d3d319e1cf42221c",
    "34f4a36c4af9a53b",
)  # our default sweep of November 2026; anwar2021's published table; default sweeps of 27 and (five) 28 November


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, draws=20, tables=str(ROOT / "results" / "tables"), foreign="")
    measured = from_tables(sorted(Path(asked.tables).glob("*.csv")))
    if len(measured) < 40:
        raise DdlbenchError(
            f"{len(measured)} measured cells in {asked.tables} are too few: `make run` measures more"
        )
    draws = [_draw(measured, seed) for seed in range(asked.draws)]
    rows = [_judged(each, measured) for each in _rows(draws, len(measured))]
    details: dict[str, Any] = {"cells": len(measured), "draws": draws}
    if asked.foreign:
        foreign = from_files([Path(asked.foreign)]).measured
        cells = [_foreign_draw(foreign, seed) for seed in range(asked.draws)]
        rows += [_judged(each, foreign) for each in _foreign_rows(cells, len(foreign))]
        details["foreign"] = cells
    save("prediction", rows, details)


def _judged(found: dict[str, Any], measured: Sequence[Measured]) -> dict[str, Any]:
    """A row that says whether constants were chosen by what it is judged on; if so it counts as missed."""
    if not (note := chosen_by(measured)):
        return found
    return found | {"met": False, "peer": f"{found['peer']}{note}"}


def chosen_by(measured: Sequence[Measured]) -> str:
    """A note if constants were chosen by these results; empty if they were not."""
    note = "; the predictor's constants were chosen on these very results"
    return note if _hash(measured) in CHOSEN_BY else ""


def _hash(measured: Sequence[Measured]) -> str:
    return sha256_json(sorted(each.time_ms for each in measured))[:16]


def _draw(measured: Sequence[Measured], seed: int) -> dict[str, Any]:
    """Errors, coverage and regret where a random quarter was learned from."""
    order = np.random.default_rng(seed).permutation(len(measured))
    number = round(len(measured) * SHARE)
    learned, rest = [measured[i] for i in order[:number]], [measured[i] for i in order[number:]]
    predictor = learn(learned)
    predicted = [(each, predictor.predict(each.cell)) for each in rest]
    errors = [
        (abs(found.time_ms / each.time_ms - 1), found.is_known, _is_exact(each)) for each, found in predicted
    ]
    inside = [found.low_ms <= each.time_ms <= found.high_ms for each, found in predicted if found.is_known]
    known = [error for error, is_known, _ in errors if is_known]
    exact = [error for error, is_known, is_exact in errors if is_known and is_exact]
    return {
        "answered": len(known) / len(errors),
        "median": median(known),
        "mean": mean(known),
        "median_of_all": median(error for error, _, _ in errors),
        "mean_of_all": mean(error for error, _, _ in errors),
        "median_of_exact": median(exact),
        "mean_of_exact": mean(exact),
        "inside": mean(inside),
        "regrets": _regrets(predictor, learned, measured),
    }


def _is_exact(measured: Measured) -> bool:
    """Whether a measurement tells the time well enough to judge a prediction by it."""
    low, high = measured.low_ms, measured.high_ms
    return low is not None and high is not None and high / low <= EXACT


def _regrets(
    predictor: Predictor, learned: Sequence[Measured], measured: Sequence[Measured]
) -> list[float | None]:
    """By how much longer the recommended number of workers takes than the best, for each question."""
    regrets = []
    for group in questions(measured):
        times = {each.cell.workers: each.time_ms for each in group}
        regrets.append(_regret(choose(predictor, learned, [each.cell for each in group], Goal()), times))
    return regrets


def _regret(chosen: Sequence[Option], times: Mapping[int, float]) -> float | None:
    """How much longer than the best an answer takes. None: none, or it says to measure another option first."""
    answer = Answer(chosen, Goal(), "step", {}, [])
    if not answer.allowed or answer.perhaps_better:
        return None
    return times[answer.allowed[0].estimate.cell.workers] / min(times.values()) - 1


def questions(measured: Sequence[Measured]) -> list[list[Measured]]:
    """Groups of cells that differ in the number of workers alone; one worker is in each group of its batch."""

    def without(cell: Cell) -> Cell:
        return replace(cell, workers=1)

    def without_link(cell: Cell) -> Cell:
        return replace(cell, workers=1, bandwidth_mbit=None, latency_ms=0.0, loss_percent=0.0)

    together = sorted(
        (each for each in measured if not each.cell.is_alone), key=lambda each: repr(without(each.cell))
    )
    groups = [list(group) for _, group in groupby(together, key=lambda each: without(each.cell))]
    for group in groups:
        asked = without_link(group[0].cell)
        group += [each for each in measured if each.cell.is_alone and without_link(each.cell) == asked]
    return [group for group in groups if len(group) > 1]


def _rows(draws: Sequence[Mapping[str, Any]], count: int) -> list[dict[str, Any]]:
    def average(key: str) -> float:
        return 100 * mean(float(draw[key]) for draw in draws)

    asked = [regret for draw in draws for regret in draw["regrets"]]
    regrets = [regret for regret in asked if regret is not None]
    best = 100 * math.fsum(regret < 1e-9 for regret in regrets) / len(asked)
    peer = f"{count} cells of our own sweeps, {len(draws)} draws of a quarter; Srifty 8 %, Habitat 11.8 %"
    errors, inside = (average("median"), average("mean")), average("inside")
    of_all, of_exact = (
        f"{average(f'median_of_{which}'):.1f} %; {average(f'mean_of_{which}'):.1f} %"
        for which in ("all", "exact")
    )
    return [
        row(
            "step time predicted from a quarter of the cells: median, mean error",
            at_least="4 %; 8 %",
            measured=f"{errors[0]:.1f} %; {errors[1]:.1f} % of the {average('answered'):.0f} % that are answered; "
            f"{of_all} of all; {of_exact} where the bounds of the measurement are within a factor of {EXACT:g}",
            peer=peer,
            met=errors[0] <= 4 and errors[1] <= 8,
        ),
        row(
            "measured values within the predicted interval of 90 %",
            at_least="86 to 94 %",
            measured=f"{inside:.1f} % (draws: {100 * min(draw['inside'] for draw in draws):.0f} to "
            f"{100 * max(draw['inside'] for draw in draws):.0f} %)",
            peer=peer,
            met=86 <= inside <= 94,
        ),
        row(
            "recommended workers: mean regret, share of best choices",
            at_least="2 %; 88 %",
            measured=f"{100 * mean(regrets):.1f} % of {len(regrets)} answers; {best:.0f} % of {len(asked)} questions",
            peer="the fastest measured cell; to other questions the answer is what to measure first",
            met=100 * mean(regrets) <= 2 and best >= 88,
        ),
    ]


def _foreign_draw(measured: Sequence[Measured], seed: int) -> dict[str, list[float | None]]:
    """Regrets at cells (batch size and latency) of which nothing was learned: ours, and of interpolation."""
    random = np.random.default_rng(seed)
    alone = {each.cell.batch_size: each for each in measured if each.cell.workers == 1}
    cells = sorted(
        {(each.cell.batch_size, each.cell.latency_ms) for each in measured if each.cell.workers > 1}
    )
    left_out = {cells[i] for i in random.permutation(len(cells))[: round(len(cells) * SHARE)]}
    learned = [
        each
        for each in measured
        if (each.cell.batch_size, each.cell.latency_ms) not in left_out or each.cell.workers == 1
    ]
    predictor = learn(learned)
    regrets: dict[str, list[float | None]] = {"ours": [], "nearest": []}
    for batch, latency in sorted(left_out):
        group = [
            each for each in measured if (each.cell.batch_size, each.cell.latency_ms) == (batch, latency)
        ]
        group += [alone[batch]] if batch in alone and latency > 0 else []
        times = {each.cell.workers: each.time_ms for each in group}
        asked = [replace(each.cell, latency_ms=latency) for each in group]
        nearest = {cell.workers: _nearest_ms(learned, cell) for cell in asked}
        regrets["ours"].append(_regret(choose(predictor, learned, asked, Goal()), times))
        regrets["nearest"].append(
            times[min(nearest, key=lambda workers: nearest[workers])] / min(times.values()) - 1
        )
    return regrets


def _nearest_ms(learned: Sequence[Measured], cell: Cell) -> float:
    """The time of the nearest measured cell with as many workers, by batch size and latency on their scales."""
    near = [each for each in learned if each.cell.workers == cell.workers]
    return min(
        near,
        key=lambda each: math.hypot(
            math.log2(each.cell.batch_size / cell.batch_size), (each.cell.latency_ms - cell.latency_ms) / 20
        ),
    ).time_ms


def _foreign_rows(draws: Sequence[Mapping[str, list[float | None]]], count: int) -> list[dict[str, Any]]:
    ours, nearest = (
        [regret for draw in draws for regret in draw[name] if regret is not None]
        for name in ("ours", "nearest")
    )

    asked = sum(len(draw["ours"]) for draw in draws)

    def best(regrets: Sequence[float]) -> float:
        return math.fsum(regret < 1e-9 for regret in regrets) / asked

    def in_words(regrets: Sequence[float]) -> str:
        return f"{100 * best(regrets):.0f} %; {100 * mean(regrets):.1f} %; {100 * max(regrets):.0f} %"

    return [
        row(
            "a table of others, whole cells left out: best choices; mean, largest regret",
            at_least="82 %; 2.5 %; 15 %",
            measured=f"{in_words(ours)}; {len(ours)} answers to {asked} questions",
            peer=f"the nearest cell: {in_words(nearest)}; {count} rows, {len(draws)} draws",
            met=best(ours) >= 0.82 and mean(ours) <= 0.025 and max(ours) <= 0.15,
        )
    ]


if __name__ == "__main__":
    benchmark(main)
