"""How far a cell is from what was measured: a distance in doublings, not a box."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddlbench.prediction.cell import Cell
from ddlbench.prediction.terms import UNLIMITED_MBIT, sent_bytes, trips

Vector = NDArray[np.float64]

NAMES = ("model", "framework", "strategy", "devices", "runtime")
OTHER_COMBINATION = (
    1.0  # doublings that each other name counts for, where all names were measured in other cells
)
LEAST = 1.0  # doublings within which a cell is always near
QUANTILE = 0.95


def coordinates(cell: Cell) -> list[float]:
    """Place a cell by what decides its time.

    Args:
        cell: any.

    Returns:
        Logarithms to the base of 2: images of a worker's core, workers, and milliseconds (more than one) that bytes,
        round trips and loss take.
    """
    alone = cell.is_alone
    wire_ms = 0.0 if alone else sent_bytes(cell) * 8e-3 / (cell.bandwidth_mbit or UNLIMITED_MBIT)
    return [
        math.log2(cell.batch_size / cell.workers / cell.vcpus),
        math.log2(cell.workers),
        math.log2(1 + wire_ms),
        math.log2(1 + trips(cell) * cell.latency_ms),
        0.0 if alone else math.log2(1 + cell.loss_percent),
    ]


@dataclass(frozen=True)
class Nearness:
    """What was measured, and how far from it a cell may be.

    Attributes:
        cells: that were measured.
        places: their coordinates, (cells, coordinates).
        farthest: the largest distance at which anything is said.
    """

    cells: tuple[Cell, ...]
    places: Vector
    farthest: float

    def distance(self, cell: Cell) -> float:
        """Measure how far the nearest measured cell is.

        Args:
            cell: any.

        Returns:
            Doublings; infinite if a name of the cell was never measured.
        """
        return float(self._distances(cell).min(initial=math.inf))

    def nearest(self, cell: Cell) -> Cell | None:
        """Find the measured cell that is most like another one.

        Args:
            cell: any.

        Returns:
            The cell; None if none is comparable.
        """
        distances = self._distances(cell)
        best = int(distances.argmin()) if len(distances) else -1
        return self.cells[best] if best >= 0 and math.isfinite(distances[best]) else None

    def why_unknown(self, cell: Cell) -> str | None:
        """Say why nothing can be said of a cell.

        Args:
            cell: any.

        Returns:
            A sentence; None: the cell is near enough.
        """
        for name in NAMES:
            known = sorted({str(getattr(each, name)) for each in self.cells})
            if getattr(cell, name) not in known:
                return f"{name} {getattr(cell, name)!r} was not measured; measured: {', '.join(known) or 'nothing'}"
        distance = self.distance(cell)
        if distance <= self.farthest:
            return None
        return (
            f"the nearest measured cell is {distance:.1f} doublings away; "
            f"predictions were tried up to {self.farthest:.1f}"
        )

    def _distances(self, cell: Cell) -> Vector:
        squares: Vector = ((self.places - np.array(coordinates(cell))) ** 2).sum(axis=1)
        for name in NAMES:
            differs = np.array(
                [getattr(each, name) != getattr(cell, name) for each in self.cells], dtype=float
            )
            if differs.all():
                return np.full(len(self.cells), math.inf)
            squares = squares + OTHER_COMBINATION**2 * differs
        distances: Vector = np.sqrt(squares)
        return distances


def apart(one: Cell, other: Cell) -> float:
    """Measure how far two cells are from each other.

    Args:
        one: any cell.
        other: any other.

    Returns:
        Doublings; each name that differs counts as one.
    """
    differ = sum(getattr(one, name) != getattr(other, name) for name in NAMES)
    return math.sqrt(math.dist(coordinates(one), coordinates(other)) ** 2 + OTHER_COMBINATION**2 * differ)


def placed(cells: Sequence[Cell]) -> Vector:
    """Place cells.

    Args:
        cells: any.

    Returns:
        Their coordinates, (cells, coordinates).
    """
    return np.array([coordinates(cell) for cell in cells]).reshape(len(cells), len(coordinates(Cell(1, 1))))


def nearness(cells: Sequence[Cell]) -> Nearness:
    """Find out how far from each other cells were measured.

    Cross-validation predicts each cell from the others, so intervals are right at such distances and not beyond.

    Args:
        cells: that were measured.

    Returns:
        Their nearness; the farthest is the distance that 95 % of the cells have from the nearest other one.
    """
    places = placed(cells)
    apart = [
        Nearness((*cells[:i], *cells[i + 1 :]), np.delete(places, i, axis=0), 0.0).distance(cell)
        for i, cell in enumerate(cells)
    ]
    finite = [each for each in apart if math.isfinite(each)]
    farthest = float(np.quantile(finite, QUANTILE)) if finite else 0.0
    return Nearness(tuple(cells), places, max(LEAST, farthest))
