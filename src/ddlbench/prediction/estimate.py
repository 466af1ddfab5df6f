"""The time of a cell: measured where it was measured, else predicted."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.predictor import Prediction, Predictor, noise_by_bounds

DEVIATIONS = 1.645  # on each side of an interval of 90 %
SURPRISE = math.log(3.0)  # a measurement that differs that much from what the others suggest may be a mistake


@dataclass(frozen=True)
class Estimate:
    """The time of a step of a cell.

    Attributes:
        cell: which.
        time_ms: measured or predicted.
        low_ms: nine of ten measurements are above it and below `high_ms`.
        high_ms: infinite if too little was measured to tell.
        deviation: standard deviation of the logarithm of the time.
        is_measured: whether this very cell was measured.
        origin: what it, or that from which it is predicted, was measured on, or by whom; as of `Measured`.
        accuracy_percent: of the nearest cell of which it was measured; None: of none.
        unknown: why nothing can be said; None: it can.
        warning: what is odd about the measurement; None: nothing.
        tells_noise: whether all its measurements have bounds, or it is predicted; those without count as exact as
            `Predictor.noise` says.
    """

    cell: Cell
    time_ms: float
    low_ms: float
    high_ms: float
    deviation: float
    is_measured: bool
    origin: str
    accuracy_percent: float | None
    unknown: str | None
    warning: str | None
    tells_noise: bool = True


def estimates(predictor: Predictor, measured: Sequence[Measured], cells: Sequence[Cell]) -> list[Estimate]:
    """Find the times of cells.

    Args:
        predictor: that was learned from `measured`.
        measured: cells with their times.
        cells: any, at least one.

    Returns:
        The geometric mean of a cell's measurements, as exact as their bounds say, or as far as they differ if that is
        more; without any, the prediction.
    """
    sizes = {(cell.workers, cell.batch_size) for cell in cells}
    near = [each for each in measured if (each.cell.workers, each.cell.batch_size) in sizes]
    rated = [each for each in measured if each.accuracy_percent is not None]
    devices = {cell.devices for cell in cells}
    origins = _origins(each for each in measured if each.cell.devices in devices)
    return [
        _as_measured(each, own, predictor, _accuracy(rated, each.cell))
        if (own := [one for one in near if _same(one.cell, each.cell)])
        else _as_predicted(each, origins, _accuracy(rated, each.cell))
        for each in predictor.predict_all(cells)
    ]


def _as_predicted(predicted: Prediction, origins: str, accuracy: float | None) -> Estimate:
    return Estimate(
        predicted.cell,
        predicted.time_ms,
        predicted.low_ms,
        predicted.high_ms,
        predicted.deviation,
        False,
        origins,
        accuracy,
        predicted.unknown,
        None,
    )


def _as_measured(
    predicted: Prediction, own: Sequence[Measured], predictor: Predictor, accuracy: float | None
) -> Estimate:
    logarithms = [math.log(each.time_ms) for each in own]
    time_ms = math.exp(statistics.fmean(logarithms))
    spread = statistics.stdev(logarithms) if len(own) > 1 else 0.0
    by_bounds = math.hypot(*map(predictor.noise, own)) / len(own)
    deviation = max(by_bounds, spread / math.sqrt(len(own)))
    tells_noise = all(noise_by_bounds(each) is not None for each in own)
    ratio = time_ms / predicted.time_ms
    warning = None
    if predicted.is_known and abs(math.log(ratio)) > max(SURPRISE, 2 * predicted.deviation):
        warning = f"measured {ratio:.2g} times what the other measurements suggest: measure it again"
        if len(own) == 1 and not tells_noise:  # it was measured once: this or the prediction may be right
            deviation = math.hypot(deviation, predicted.deviation, math.log(ratio)) / math.sqrt(2)
    width = math.exp(DEVIATIONS * math.hypot(deviation, spread))  # another measurement is as far off as these
    return Estimate(
        predicted.cell,
        time_ms,
        time_ms / width,
        time_ms * width,
        deviation,
        True,
        _origins(own),
        accuracy,
        None,
        warning,
        tells_noise,
    )


def _origins(measured: Iterable[Measured]) -> str:
    return " and ".join(sorted({each.origin for each in measured} - {""}))


def was_measured(measured: Sequence[Measured], cell: Cell) -> bool:
    """Say whether this very cell was measured.

    Args:
        measured: cells with their times.
        cell: any.

    Returns:
        True if one of them is the same in all that decides its time.
    """
    return any(_same(each.cell, cell) for each in measured)


def _same(one: Cell, other: Cell) -> bool:
    if (one.workers, one.batch_size) != (other.workers, other.batch_size):
        return False  # at once, as every cell that was measured is asked about
    return _compared(one) == _compared(other)


def _compared(cell: Cell) -> Cell:
    """A cell without what does not matter: a lone worker's link, memory, hosts beyond those used, a GPU's vCPUs."""
    cell = replace(
        cell,
        vcpus=cell.processors,
        memory_gb=None,
        host_count=cell.hosts,
        batch_size=float(cell.batch_size),
    )
    if cell.is_alone:
        return replace(cell, latency_ms=0.0, bandwidth_mbit=None, loss_percent=0.0)
    return cell


def _accuracy(rated: Sequence[Measured], cell: Cell) -> float | None:
    """The accuracy of the nearest cell of the same model: batch size first, since it decides what is learned."""
    near = [
        (abs(math.log2(each.cell.batch_size / cell.batch_size)), abs(each.cell.workers - cell.workers), i)
        for i, each in enumerate(rated)
        if each.cell.model == cell.model
    ]
    return rated[min(near)[2]].accuracy_percent if near and min(near)[0] <= 1 else None
