"""Intervals: how wrong predictions were in cross-validation, by what the step is made of (conformal prediction)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Vector = NDArray[np.float64]
LEAST = 0.02  # relative; no prediction is taken to be better than that
MOST_GROUPS = 200  # of errors that are left out together; of fewer errors, each is left out alone
FEWEST = 8  # cross-validated errors that an uncertainty of each part is learned from


@dataclass(frozen=True)
class Calibration:
    """How wrong a prediction may be.

    Attributes:
        variances: of the logarithm of a time that is all of one part, by the part's name.
        scores: errors in cross-validation by the scale expected for them, sorted, without sign.
    """

    variances: Mapping[str, float]
    scores: Vector

    def scale(self, shares: Mapping[str, float], deviation: float) -> float:
        """Expect an error.

        Args:
            shares: of each part in the predicted time.
            deviation: of the learned residual.

        Returns:
            The standard deviation of the logarithm of measured by predicted time.
        """
        common = max(self.variances.values(), default=1.0)
        found = sum(self.variances.get(part, common) * share**2 for part, share in shares.items())
        return math.sqrt(found + deviation**2 + LEAST**2)

    def reach(self, coverage: float) -> float:
        """Find how many scales a measured value may be from the predicted one.

        Args:
            coverage: share of values that shall be nearer, between 0 and 1.

        Returns:
            Scales, of the logarithm; infinite if too little was measured to tell.
        """
        count = len(self.scores)
        rank = (count + 1) / count * coverage if count else math.inf
        return float(np.interp(rank, np.linspace(0, 1, count), self.scores)) if rank <= 1 else math.inf


def calibrate(errors: Vector, shares: Sequence[Mapping[str, float]], deviations: Vector) -> Calibration:
    """Learn how wrong predictions are from cross-validated ones.

    Args:
        errors: logarithms of measured by predicted time, each of a cell that was not learned from.
        shares: of each part in those predictions.
        deviations: of the learned residuals in those predictions.

    Returns:
        The calibration.
    """
    count, parts = len(errors), sorted({part for each in shares for part in each})
    squares = np.array([[each.get(part, 0.0) ** 2 for part in parts] for each in shares])
    squares = squares.reshape(count, len(parts))
    scores = np.empty(count)
    for some in np.array_split(np.arange(count), max(1, min(count, MOST_GROUPS))):
        # An error is not measured by a scale that it has had a part in.
        others = _variances(np.delete(errors, some), np.delete(squares, some, axis=0))
        scores[some] = np.abs(errors[some]) / _scales(squares[some] @ others, deviations[some])
    variances = _variances(errors, squares).tolist()
    return Calibration(dict(zip(parts, variances, strict=True)), np.sort(scores))


def _scales(variances: Vector, deviations: Vector) -> Vector:
    found: Vector = np.sqrt(variances + deviations**2 + LEAST**2)
    return found


def _variances(errors: Vector, squares: Vector) -> Vector:
    """Variances by part, which the squared errors tell; held to a common one, as if each had been seen once in all."""
    parts = squares.shape[1]
    common = float((1.4826 * np.median(np.abs(errors))) ** 2) if len(errors) else 1.0
    if len(errors) < FEWEST:
        return np.full(parts, max(common, LEAST**2))
    bounded = np.minimum(errors**2, 1.0)  # a single tenfold error would be all that counts
    weights = 1 / (bounded.mean() + bounded)
    pulls = np.eye(parts) / (2 * bounded.mean())
    solution: Vector
    solution, _ = nnls(
        np.vstack([squares * weights[:, None], pulls]),
        np.concatenate([bounded * weights, pulls.sum(axis=1) * common]),
    )
    return solution
