"""Learning from measured cells, and predicting others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ddlbench.errors import DdlbenchError
from ddlbench.prediction import physics, residual
from ddlbench.prediction.calibration import Calibration, calibrate
from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.nearness import Nearness, around, nearness, numbered
from ddlbench.prediction.physics import Physics
from ddlbench.prediction.residual import Residual

Vector = NDArray[np.float64]

FOLDS = 10
FEWEST = 3  # measurements that anything is learned from
COVERAGE = 0.9  # share of measured values that shall be within the bounds
ASSUMED_NOISE = 0.03  # relative standard error of a measurement without bounds, while nothing tells it
FEWEST_FOR_NOISE = 20  # measurements without bounds, predicted from others, that tell how exact they are
LEAST_NOISE = 0.005  # and the least of one with bounds, however close they are
BOUNDS_DEVIATIONS = 1.96  # of an interval of 95 %, on each side


@dataclass(frozen=True)
class Prediction:
    """What is expected of a cell.

    Attributes:
        cell: that was asked for.
        time_ms: of a step.
        low_ms: nine of ten measurements are above it and below `high_ms`.
        high_ms: infinite if too little was measured to tell.
        deviation: standard deviation of the logarithm of the time.
        parts_ms: what physics says the step is made of.
        distance: from the nearest measured cell, in doublings.
        unknown: why it must not be used; None: it may be.
    """

    cell: Cell
    time_ms: float
    low_ms: float
    high_ms: float
    deviation: float
    parts_ms: dict[str, float]
    distance: float
    unknown: str | None

    @property
    def is_known(self) -> bool:
        """Whether the cell is near enough to what was measured."""
        return self.unknown is None


@dataclass(frozen=True)
class _Model:
    physics: Physics
    residual: Residual

    def predict(self, cells: Sequence[Cell]) -> tuple[Vector, list[dict[str, float]], Vector]:
        """Times in ms, their parts by physics, and the standard deviations of the residuals."""
        times_ms, parts_ms = self.physics.times_ms(cells)
        log_ratios, deviations = self.residual.log_ratios(cells)
        return times_ms * np.exp(log_ratios), parts_ms, deviations


@dataclass(frozen=True)
class Predictor:
    """What was learned from measured cells.

    Attributes:
        model: physics and residual.
        nearness: to what was measured.
        calibration: how wrong predictions are.
        unbounded_noise: relative standard error of measurements without bounds, by how well each is predicted from
            others, so rather too large; None: too few tell it, and ASSUMED_NOISE is assumed.
    """

    model: _Model
    nearness: Nearness
    calibration: Calibration
    unbounded_noise: float | None = None

    def predict(self, cell: Cell) -> Prediction:
        """Predict the time of a step.

        Args:
            cell: any.

        Returns:
            The prediction; its `unknown` says if it must not be used.
        """
        return self.predict_all([cell])[0]

    def predict_all(self, cells: Sequence[Cell]) -> list[Prediction]:
        """Predict the times of several cells' steps at once, which takes hardly longer than that of one.

        Args:
            cells: any, at least one.

        Returns:
            The predictions, in the cells' order.
        """
        distances = self.nearness.distances(cells).tolist()
        times_ms, parts_ms, deviations = self.model.predict(cells)
        reach = self.calibration.reach(COVERAGE)
        found = zip(cells, times_ms.tolist(), parts_ms, deviations.tolist(), distances, strict=True)
        return [self._prediction(*each, reach) for each in found]

    def noise(self, measured: Measured) -> float:
        """Find out how exact a measurement is.

        Args:
            measured: a cell with its time.

        Returns:
            Its relative standard error.
        """
        return noise_by_bounds(measured) or self.unbounded_noise or ASSUMED_NOISE

    @property
    def about_noise(self) -> str:
        """How exact measurements are taken to be that do not tell it, for people."""
        if self.unbounded_noise is None:
            exact, why = ASSUMED_NOISE, "which is assumed, as there are too few of them to find out"
        else:
            exact, why = self.unbounded_noise, "as far as they are from what the others suggest"
        return f"times that were measured without bounds are taken as exact to {100 * exact:.2g} %, {why}"

    def _prediction(
        self,
        cell: Cell,
        time_ms: float,
        parts_ms: dict[str, float],
        deviation: float,
        distance: float,
        reach: float,
    ) -> Prediction:
        scale = self.calibration.scale(_sources(parts_ms, distance), deviation)
        width = reach * scale
        return Prediction(
            cell=cell,
            time_ms=time_ms,
            low_ms=time_ms * math.exp(-width),
            high_ms=time_ms * math.exp(min(width, 700.0)) if width < math.inf else math.inf,
            deviation=scale,
            parts_ms=parts_ms,
            distance=distance,
            unknown=self.nearness.why_unknown(cell, distance),
        )


def learn(measured: Sequence[Measured], seed: int = 0) -> Predictor:
    """Learn from measured cells.

    Args:
        measured: at least three; the same cell may be there several times.
        seed: of the folds of cross-validation.

    Returns:
        The predictor.

    Raises:
        DdlbenchError: there are less than three measurements.
    """
    must_suffice(measured)
    cells = [each.cell for each in measured]
    near = nearness(cells)
    with threadpool_limits(
        1
    ):  # matrices are small: threads would wait for each other, seconds long on a busy machine
        tried = _cross_validated(measured, near.farthest, seed)
        calibration = calibrate(
            np.array([each.error for each in tried]),
            [each.sources for each in tried],
            np.array([each.deviation for each in tried]),
        )
        return Predictor(_fitted(measured), near, calibration, _unbounded_noise(tried))


def must_suffice(measured: Sequence[Measured]) -> None:
    """Check that something can be learned.

    Args:
        measured: cells with their times.

    Raises:
        DdlbenchError: there are less than three measurements.
    """
    if len(measured) < FEWEST:
        raise DdlbenchError(
            f"{len(measured)} measurements are too few to predict from (3 at least, better 20).\n"
            "  To measure some:  make run"
        )


def _fitted(measured: Sequence[Measured]) -> _Model:
    cells = [each.cell for each in measured]
    times_ms = np.array([each.time_ms for each in measured])
    noises = np.array([noise_by_bounds(each) or ASSUMED_NOISE for each in measured])
    found = physics.fit(measured, noises)
    log_ratios = np.log(times_ms / found.times_ms(cells)[0])
    return _Model(found, residual.learn(cells, log_ratios, noises**2))


class _Tried(NamedTuple):
    """The error of predicting a measurement from others, what it comes from, and the residual's deviation."""

    measured: Measured
    error: float
    sources: dict[str, float]
    deviation: float


def _cross_validated(measured: Sequence[Measured], farthest: float, seed: int) -> list[_Tried]:
    """Predict from other cells each measurement that is not too far from them; repetitions of it are no others."""
    rows = list(zip(measured, numbered([each.cell for each in measured]), strict=True))
    order = np.random.default_rng(seed).permutation(max(number for _, number in rows) + 1)
    found: list[_Tried] = []
    for fold in np.array_split(order, min(FOLDS, len(order))):
        left_out = set(map(int, fold))
        others = [each for each, number in rows if number not in left_out]
        tried = [each for each, number in rows if number in left_out]
        if not others:  # one cell alone was measured
            break
        near, model = around([each.cell for each in others], farthest), _fitted(others)
        distances = near.distances([each.cell for each in tried])
        predicted = zip(*model.predict([each.cell for each in tried]), strict=True)
        for each, distance, (time_ms, parts_ms, deviation) in zip(tried, distances, predicted, strict=True):
            if distance <= farthest:
                error = math.log(each.time_ms / time_ms)
                found.append(_Tried(each, error, _sources(parts_ms, distance), deviation))
    return found


def _unbounded_noise(tried: Sequence[_Tried]) -> float | None:
    """How exact measurements without bounds are, if enough of them tell: an outlier among them counts little."""
    errors = [abs(each.error) for each in tried if noise_by_bounds(each.measured) is None]
    if len(errors) < FEWEST_FOR_NOISE:
        return None
    return max(LEAST_NOISE, 1.4826 * float(np.median(errors)))


def _sources(parts_ms: dict[str, float], distance: float) -> dict[str, float]:
    """What an error comes from: the share of each part in the step, and the distance from what was measured."""
    total = sum(parts_ms.values())
    shares = {part: time_ms / total for part, time_ms in parts_ms.items()} if total > 0 else {"overhead": 1.0}
    return shares | {"distance": min(distance, 1e3)}


def noise_by_bounds(measured: Measured) -> float | None:
    """Find out how exact a measurement is.

    Args:
        measured: a cell with its time.

    Returns:
        Its relative standard error; None: it has no bounds that tell it.
    """
    low, high = measured.low_ms, measured.high_ms
    if low is None or high is None or not 0 < low <= high:
        return None
    return max(LEAST_NOISE, math.log(high / low) / 2 / BOUNDS_DEVIATIONS)
