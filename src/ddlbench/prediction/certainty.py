"""How sure a choice is: which of several uncertain values is the least, and what knowing one of them would gain."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Vector = NDArray[np.float64]

# Gauss-Legendre quadrature over a probability from 0 to 1: where, and how much each counts.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NORMAL, _SHARES = ndtri((_NODES + 1) / 2), _WEIGHTS / 2
NEGLIGIBLE = 1e-6  # of the mean of what is taken; what gains less gains nothing


@dataclass(frozen=True)
class Uncertain:
    """Values that are known within some error, independent of each other: a fixed part, and one that is log-normal.

    Attributes:
        fixed: the part that is certain.
        median: of the other part; zero or more.
        deviation: standard deviation of the logarithm of the other part, above zero.
    """

    fixed: Vector
    median: Vector
    deviation: Vector

    def probabilities(self) -> Vector:
        """Find how probable it is of each value that it is the least.

        Returns:
            Probabilities, whose sum is 1. Values that are certain and equal share theirs.
        """
        values = self.fixed[:, None] + self.median[:, None] * np.exp(self.deviation[:, None] * _NORMAL)
        above = 1 - ndtr(
            self._normal(values[:, :, None])
        )  # (value, where in its distribution, another value)
        own = np.arange(len(self.fixed))
        above[own, :, own] = 1.0
        shares = above.prod(axis=2) @ _SHARES
        found: Vector = shares / shares.sum()
        return found

    def gains(self) -> Vector:
        """Find by how much knowing one value lowers the expected value of what is taken then.

        Values are ranked by their medians: without knowing it, the first one is taken; else it or the first of the
        others, whichever is less.

        Returns:
            The gains, zero or more.
        """
        count = len(self.fixed)
        if count < 2:
            return np.zeros(count)
        typical = self.fixed + self.median
        means = self.fixed + self.median * np.exp(self.deviation**2 / 2)
        first, second = np.argsort(typical, kind="stable")[:2]
        other = np.where(np.arange(count) == first, second, first)
        reached = self._normal(typical[other])
        # The mean of a log-normal value below a bound (Aitchison 1957, eq. 2.4), and the other's for all that is above.
        below = self.fixed * ndtr(reached) + (means - self.fixed) * ndtr(reached - self.deviation)
        gains = means[first] - (below + means[other] * ndtr(-reached))
        return np.where(gains > NEGLIGIBLE * abs(means[first]), gains, 0.0)

    def _normal(self, values: Vector) -> Vector:
        """Of what standard normal number each value is made; a value below all that can be: of minus infinity."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(np.maximum(values - self.fixed, 0.0) / self.median) / self.deviation
        return np.nan_to_num(found, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
