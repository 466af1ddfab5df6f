"""What physics leaves over: a Gaussian process on the logarithm of measured by predicted time."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ddlbench.prediction.cell import Cell
from ddlbench.prediction.nearness import NAMES, coordinates

if TYPE_CHECKING:
    from sklearn.gaussian_process import GaussianProcessRegressor

Vector = NDArray[np.float64]
FEWEST = 8  # measurements that a residual is learned from
ROUNDS = 2  # the second one with less weight on outliers
OUTLIER = 3.0  # standard deviations, beyond which a value is one
MOST = 600  # that it is learned from; its time grows with the third power
UNCERTAIN = 0.15  # the largest standard deviation of a residual that is expected before anything was measured


@dataclass(frozen=True)
class Residual:
    """What to multiply physics with.

    Attributes:
        process: the regressor; None: too little was measured for one.
        names: values of each name, which make columns of zeros and ones.
    """

    process: "GaussianProcessRegressor | None"
    names: tuple[tuple[str, str], ...]

    def log_ratio(self, cell: Cell) -> tuple[float, float]:
        """Predict the logarithm of measured by physics' time.

        Args:
            cell: any.

        Returns:
            Its mean and its standard deviation.
        """
        if self.process is None:
            return 0.0, UNCERTAIN
        mean, deviation = self.process.predict([_features(cell, self.names)], return_std=True)
        return float(mean[0]), float(deviation[0])


def learn(cells: Sequence[Cell], log_ratios: Vector, variances: Vector) -> Residual:
    """Learn residuals; where nothing near was measured they are zero.

    Args:
        cells: measured ones.
        log_ratios: the logarithms of measured by physics' times.
        variances: of each, by the measurement's noise.

    Returns:
        The residual.
    """
    found = {(name, str(getattr(cell, name))) for cell in cells for name in NAMES}
    names = tuple(sorted(found))
    if len(cells) < FEWEST:
        return Residual(None, names)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    lengths = np.full(len(coordinates(cells[0])) + len(names), 2.0)  # each coordinate has its own
    kernel = ConstantKernel(UNCERTAIN**2, (1e-4, 4.0)) * RBF(lengths, (0.5, 50.0)) + WhiteKernel(
        0.01, (1e-4, 0.3)
    )
    some = np.random.default_rng(len(cells)).permutation(len(cells))[:MOST]
    features, wanted, alpha = [_features(cells[i], names) for i in some], log_ratios[some], variances[some]
    for _ in range(ROUNDS):
        process = GaussianProcessRegressor(kernel, alpha=alpha + 1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a bound was reached, which is an answer
            process.fit(features, wanted)
        alpha = variances[some] + _outlying(process, wanted)
    return Residual(process, names)


def _outlying(process: "GaussianProcessRegressor", wanted: Vector) -> Vector:
    """More variance for each value that is far from what all others say of it (Rasmussen 2006, eq. 5.12)."""
    inverse = np.linalg.inv(process.L_ @ process.L_.T)
    errors = inverse @ wanted / np.diag(inverse)
    excess: Vector = np.maximum(errors**2 - OUTLIER**2 / np.diag(inverse), 0.0)
    return excess


def _features(cell: Cell, names: tuple[tuple[str, str], ...]) -> list[float]:
    return [*coordinates(cell), *(float(str(getattr(cell, name)) == value) for name, value in names)]
