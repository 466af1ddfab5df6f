"""How far measured times are from what physics predicts: a Gaussian process learns it, as logarithms of ratios."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ddlbench.prediction.cell import Cell
from ddlbench.prediction.features import Features, features_of

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
        features: of the cells that it was learned from.
        process: the regressor; None: too little was measured for one.
    """

    features: Features
    process: "GaussianProcessRegressor | None"

    def log_ratios(self, cells: Sequence[Cell]) -> tuple[Vector, Vector]:
        """Predict the logarithms of measured by physics' times.

        It is what the regressor's own `predict` does (Rasmussen 2006, algorithm 2.1) but for checks of its input, which
        take longer than all the rest.

        Args:
            cells: any, at least one.

        Returns:
            Their means and their standard deviations.
        """
        if self.process is None:
            return np.zeros(len(cells)), np.full(len(cells), UNCERTAIN)
        kernel, features = self.process.kernel_, self.features.of(cells)
        covariances = kernel(features, self.process.X_train_)
        explained = solve_triangular(self.process.L_, covariances.T, lower=True, check_finite=False)
        variances = kernel.diag(features) - (explained**2).sum(axis=0)
        return covariances @ self.process.alpha_, np.sqrt(np.maximum(variances, 0.0))


def learn(cells: Sequence[Cell], log_ratios: Vector, variances: Vector) -> Residual:
    """Learn residuals; where nothing near was measured they are zero.

    Args:
        cells: measured ones.
        log_ratios: the logarithms of measured by physics' times.
        variances: of each, by the measurement's noise.

    Returns:
        The residual.
    """
    features = features_of(cells)
    if len(cells) < FEWEST:
        return Residual(features, None)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    places = features.of(cells)
    lengths = np.full(places.shape[1], 2.0)  # each column has its own
    kernel = ConstantKernel(UNCERTAIN**2, (1e-4, 4.0)) * RBF(lengths, (0.5, 50.0)) + WhiteKernel(
        0.01, (1e-4, 0.3)
    )
    some = np.random.default_rng(len(cells)).permutation(len(cells))[:MOST]
    wanted, alpha = log_ratios[some], variances[some]
    for _ in range(ROUNDS):
        process = GaussianProcessRegressor(kernel, alpha=alpha + 1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a bound was reached, which is an answer
            process.fit(places[some], wanted)
        alpha = variances[some] + _outlying(process, wanted)
    return Residual(features, process)


def _outlying(process: "GaussianProcessRegressor", wanted: Vector) -> Vector:
    """More variance for each value that is far from what all others say of it (Rasmussen 2006, eq. 5.12)."""
    inverse = np.linalg.inv(process.L_ @ process.L_.T)
    errors = inverse @ wanted / np.diag(inverse)
    excess: Vector = np.maximum(errors**2 - OUTLIER**2 / np.diag(inverse), 0.0)
    return excess
