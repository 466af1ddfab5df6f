"""Fitting the terms of a step to measured times: non-negative, by relative error, and robust."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.replayed import Replayed, replayed
from ddlbench.prediction.terms import UNLIMITED, Term, terms

Vector = NDArray[np.float64]
Column = tuple[str, str]  # kind and owner (or parent) of a coefficient

ROUNDS = 12  # of reweighting
LIKENESS = (
    1.0  # how strongly a coefficient is held to its parent's: twice its parent's counts as 100 % of error
)
# Coefficients of perfect software: a byte is sent once, a message waits once. Of loss: what three sweeps had. A message
# has many ends, as no more is sent at once than the window allows.
EXPECTED = {"wire": 1.0, "trips": 1.0, "tails": 38.0, "again": 0.11}
EXPECTATION = 0.1  # how strongly parents are held to these
SHRINKAGE = 1e-3  # and the others to zero
DEGREES_OF_FREEDOM = 3.0  # of Student's t, whose weights make the fit robust


@dataclass(frozen=True)
class Physics:
    """What a step is made of.

    Attributes:
        coefficients: of the terms, by kind and owner or parent.
        replayed: compute that is known.
    """

    coefficients: Mapping[Column, float]
    replayed: Replayed

    def parts_ms(self, cell: Cell) -> dict[str, float]:
        """Predict a step, part by part.

        Args:
            cell: any.

        Returns:
            Milliseconds of each part of the step that is there at all.
        """
        found: dict[str, float] = defaultdict(float)
        compute_ms = self.replayed.compute_ms(cell)
        if compute_ms is not None:
            found["replayed"] = compute_ms
        for term in terms(cell, compute_ms):
            found[term.part] += self._coefficient(term) * term.amount
        return dict(found)

    def times_ms(self, cells: Sequence[Cell]) -> tuple[Vector, list[dict[str, float]]]:
        """Predict steps.

        Args:
            cells: any.

        Returns:
            Their times, above zero, and the parts of each.
        """
        parts_ms = [self.parts_ms(cell) for cell in cells]
        return np.maximum([sum(each.values()) for each in parts_ms], 1e-6), parts_ms

    def _coefficient(self, term: Term) -> float:
        for owner in (term.owner, term.parent):
            if (found := self.coefficients.get((term.kind, owner))) is not None:
                return found
        return _expected((term.kind, term.parent))


def fit(measured: Sequence[Measured], noise: Vector) -> Physics:
    """Fit coefficients to measured times.

    The squared error is relative to the geometric mean of measured and predicted time, which is close to the logarithm
    of their ratio: half and twice are equally wrong.

    Args:
        measured: at least one cell with its time.
        noise: relative standard errors of the measurements.

    Returns:
        The physics.
    """
    cells, times_ms = [each.cell for each in measured], np.array([each.time_ms for each in measured])
    of_replay = replayed(measured)
    compute_ms = [of_replay.compute_ms(cell) for cell in cells]
    known_ms = np.array([each or 0.0 for each in compute_ms])
    amounts, columns, parents = _design([list(terms(*each)) for each in zip(cells, compute_ms, strict=True)])
    pulls, held_to = _pulls(amounts, columns, parents, times_ms)
    weights, predicted = np.ones(len(cells)), times_ms
    solution = np.zeros(len(columns))
    for _ in range(ROUNDS):
        scale = np.sqrt(weights) / (np.sqrt(times_ms * predicted) * (1 + noise / 0.1))
        rows = np.vstack([amounts * scale[:, None], pulls])
        wanted = np.concatenate([(times_ms - known_ms) * scale, held_to])
        solution, _ = nnls(rows, wanted, maxiter=50 * len(columns))
        predicted = np.maximum(known_ms + amounts @ solution, times_ms * 1e-3)
        weights = _weights(np.log(times_ms / predicted), noise)
    return Physics(dict(zip(columns, map(float, solution), strict=True)), of_replay)


def _design(listed: Sequence[Sequence[Term]]) -> tuple[Vector, list[Column], dict[Column, Column]]:
    """Amounts by cell and column. Columns of parents are there too, though nothing is made of them directly."""
    owners = {(term.kind, term.owner): (term.kind, term.parent) for each in listed for term in each}
    parents = {own: parent for own, parent in owners.items() if parent[1]}
    columns = sorted({*owners, *parents.values()})
    numbers = {column: number for number, column in enumerate(columns)}
    amounts = np.zeros((len(listed), len(columns)))
    for row, each in zip(amounts, listed, strict=True):
        for term in each:
            row[numbers[term.kind, term.owner]] += term.amount
    return amounts, columns, parents


def _pulls(
    amounts: Vector, columns: list[Column], parents: Mapping[Column, Column], times_ms: Vector
) -> tuple[Vector, Vector]:
    """Rows that hold each coefficient to its parent's, and parents to what is expected or loosely to zero."""
    numbers = {column: number for number, column in enumerate(columns)}
    typical = np.array([_typical(amounts[:, number], times_ms) for number in range(len(columns))])
    for own, parent in parents.items():
        typical[numbers[parent]] = max(typical[numbers[parent]], typical[numbers[own]])
    strength, held_to = SHRINKAGE * typical, np.zeros(len(columns))
    for column in set(columns) - parents.keys():
        if expected := _expected(column):
            strength[numbers[column]] = EXPECTATION * typical[numbers[column]]
            held_to[numbers[column]] = strength[numbers[column]] * expected
    rows = [np.diag(strength)]
    for own, parent in parents.items():
        row = np.zeros(len(columns))
        row[numbers[own]] = LIKENESS * typical[numbers[own]]
        row[numbers[parent]] = -LIKENESS * typical[numbers[own]]
        rows.append(row[None, :])
    return np.vstack(rows), np.concatenate([held_to, np.zeros(len(parents))])


def _expected(column: Column) -> float:
    kind, owner = column
    return 0.0 if UNLIMITED in owner else EXPECTED.get(kind, 0.0)


def _typical(amounts: Vector, times_ms: Vector) -> float:
    """The median share of a term in the cells that have it, for a coefficient of 1."""
    shares = (amounts / times_ms)[amounts > 0]
    return float(np.median(shares)) if len(shares) else 0.0


def _weights(errors: Vector, noise: Vector) -> Vector:
    """Student's t: an error far beyond those of the others counts little."""
    spread = max(1.4826 * float(np.median(np.abs(errors))), 0.02)
    ratio = errors / np.sqrt(spread**2 + noise**2)
    return (DEGREES_OF_FREEDOM + 1) / (DEGREES_OF_FREEDOM + ratio**2) / (1 + 1 / DEGREES_OF_FREEDOM)
