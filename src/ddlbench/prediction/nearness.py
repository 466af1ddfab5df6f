"""How far a cell is from what was measured: a distance in doublings, not a box."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from ddlbench.prediction.cell import Cell
from ddlbench.prediction.features import COORDINATES, NAMES, Features, coordinates, features_of

Vector = NDArray[np.float64]

OTHER_COMBINATION = (
    1.0  # doublings that each other name counts for, where all names were measured in other cells
)
LEAST = 1.0  # doublings within which a cell is always near
QUANTILE = 0.98


@dataclass(frozen=True)
class Nearness:
    """What was measured, and how far from it a cell may be.

    Attributes:
        features: of the cells that were measured.
        measured: where they are.
        farthest: the largest distance at which anything is said.
    """

    features: Features
    measured: KDTree
    farthest: float

    def distances(self, cells: Sequence[Cell]) -> Vector:
        """Measure how far the nearest measured cells are.

        Args:
            cells: any, at least one.

        Returns:
            Doublings for each; infinite if a name of the cell was never measured.
        """
        found, _ = self.measured.query(_places(self.features, cells))
        is_strange = [self.features.unknown_name(cell) is not None for cell in cells]
        distances: Vector = np.where(is_strange, math.inf, found)
        return distances

    def why_unknown(self, cell: Cell, distance: float) -> str | None:
        """Say why nothing can be said of a cell.

        Args:
            cell: any.
            distance: of it from the nearest measured one.

        Returns:
            A sentence; None: the cell is near enough.
        """
        if name := self.features.unknown_name(cell):
            known = ", ".join(self.features.known[name]) or "nothing"
            return f"{name} {getattr(cell, name)!r} was not measured; measured: {known}"
        if distance <= self.farthest:
            return None
        return (
            f"the nearest measured cell is {distance:.1f} doublings away; "
            f"predictions were tried up to {self.farthest:.1f}"
        )


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


def around(cells: Sequence[Cell], farthest: float) -> Nearness:
    """Remember where cells were measured.

    Args:
        cells: that were measured, at least one.
        farthest: the largest distance at which anything is said.

    Returns:
        Their nearness.
    """
    features = features_of(cells)
    return Nearness(features, KDTree(_places(features, cells)), farthest)


def nearness(cells: Sequence[Cell]) -> Nearness:
    """Find out how far from each other cells were measured.

    Cross-validation predicts each cell from the others, so intervals are right at such distances and not beyond.

    Args:
        cells: that were measured, at least two.

    Returns:
        Their nearness; the farthest is the distance that 98 % of the cells have from the nearest different one.
    """
    found = around(cells, LEAST)
    places = np.unique(_places(found.features, cells), axis=0)  # a repetition is no other cell
    apart = np.asarray(KDTree(places).query(places, k=2)[0])[:, 1]  # the nearest of all is the cell itself
    counts = (places[:, COORDINATES:] > 0).sum(axis=0)
    is_only = (places[:, COORDINATES:][:, counts == 1] > 0).any(axis=1)  # of a name that no other cell has
    if not is_only.all():
        found = Nearness(
            found.features, found.measured, max(LEAST, float(np.quantile(apart[~is_only], QUANTILE)))
        )
    return found


def numbered(cells: Sequence[Cell]) -> list[int]:
    """Tell different cells from repetitions of one, which nothing that decides a time tells apart.

    Args:
        cells: any, at least one.

    Returns:
        A number of each, from 0 in the order of their appearance; repetitions have the same one.
    """
    numbers: dict[tuple[float, ...], int] = {}
    places = features_of(cells).of(cells).tolist()
    return [numbers.setdefault(tuple(place), len(numbers)) for place in places]


def _places(features: Features, cells: Sequence[Cell]) -> Vector:
    """Features, scaled so that a name that differs (a one and a zero in two columns) counts as it should."""
    places = features.of(cells)
    places[:, COORDINATES:] *= OTHER_COMBINATION / math.sqrt(2)
    return places
