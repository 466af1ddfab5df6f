"""Intervals: how wrong predictions were in cross-validation, by what the step is made of (conformal prediction)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Vector = NDArray[np.float64]
LEAST = 0.02  # relative; no prediction is taken to be better than that
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
    parts = sorted({part for each in shares for part in each})
    scores = np.empty(len(errors))
    for i, error in enumerate(errors):  # an error is not measured by a scale that it has had a part in
        others = _variances(np.delete(errors, i), [*shares[:i], *shares[i + 1 :]], parts)
        scores[i] = abs(error) / Calibration(others, np.empty(0)).scale(shares[i], float(deviations[i]))
    return Calibration(_variances(errors, shares, parts), np.sort(scores))


def _variances(
    errors: Vector, shares: Sequence[Mapping[str, float]], parts: Sequence[str]
) -> dict[str, float]:
    """Variances by part, which the squared errors tell; held to a common one, as if each had been seen once in all."""
    common = float((1.4826 * np.median(np.abs(errors))) ** 2) if len(errors) else 1.0
    if len(errors) < FEWEST:
        return dict.fromkeys(parts, max(common, LEAST**2))
    rows = np.array([[each.get(part, 0.0) ** 2 for part in parts] for each in shares])
    bounded = np.minimum(errors**2, 1.0)  # a single tenfold error would be all that counts
    weights = 1 / (bounded.mean() + bounded)
    pulls = np.eye(len(parts)) / (2 * bounded.mean())
    solution, _ = nnls(
        np.vstack([rows * weights[:, None], pulls]),
        np.concatenate([bounded * weights, pulls.sum(axis=1) * common]),
    )
    return dict(zip(parts, map(float, solution), strict=True))
