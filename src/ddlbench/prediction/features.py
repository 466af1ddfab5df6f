"""Cells as rows of numbers: what decides their times, and which names they have."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddlbench.prediction.cell import Cell
from ddlbench.prediction.terms import UNLIMITED_MBIT, sent_bytes, trips

Vector = NDArray[np.float64]

NAMES = ("model", "framework", "strategy", "devices", "runtime")
COORDINATES = 5


def coordinates(cell: Cell) -> list[float]:
    """Place a cell by what decides its time.

    Args:
        cell: any.

    Returns:
        Logarithms to the base of 2: images of a worker's processor, workers, and milliseconds (more than one) that
        bytes, round trips and loss take.
    """
    alone = cell.is_alone
    wire_ms = 0.0 if alone else sent_bytes(cell) * 8e-3 / (cell.bandwidth_mbit or UNLIMITED_MBIT)
    return [
        math.log2(cell.batch_size / cell.workers / cell.processors),
        math.log2(cell.workers),
        math.log2(1 + wire_ms),
        math.log2(1 + trips(cell) * cell.latency_ms),
        0.0 if alone else math.log2(1 + cell.loss_percent),
    ]


@dataclass(frozen=True)
class Features:
    """Coordinates, and a column of zeros and ones for each name that was measured.

    Attributes:
        known: what was measured, by kind of name.
    """

    known: Mapping[str, tuple[str, ...]]

    def of(self, cells: Sequence[Cell]) -> Vector:
        """Place cells.

        Args:
            cells: any, at least one.

        Returns:
            Numbers, (cells, COORDINATES and one for each known name).
        """
        return np.array([[*coordinates(cell), *self._columns(cell)] for cell in cells])

    def unknown_name(self, cell: Cell) -> str | None:
        """Find out whether a cell is of a kind that was measured at all.

        Args:
            cell: any.

        Returns:
            The kind of name that it has another one of than any that was measured; None: there is none.
        """
        return next((name for name in NAMES if getattr(cell, name) not in self.known[name]), None)

    def _columns(self, cell: Cell) -> Iterator[float]:
        for name, values in self.known.items():
            own = getattr(cell, name)
            for value in values:
                yield float(own == value)


def features_of(cells: Sequence[Cell]) -> Features:
    """Learn the names of cells.

    Args:
        cells: that were measured.

    Returns:
        Features that tell them apart.
    """
    return Features({name: tuple(sorted({getattr(cell, name) for cell in cells})) for name in sorted(NAMES)})
