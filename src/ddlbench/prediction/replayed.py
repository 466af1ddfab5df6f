"""What replayed compute takes: nothing has to be predicted where it was replayed, as the emulation makes it."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.workload import workload

Model = tuple[str, str]  # its name, and the image shape
Times = list[tuple[float, float]]  # images of a worker, and what they take in ms; sorted


@dataclass(frozen=True)
class Replayed:
    """The compute of steps, as far as measurements replayed it.

    Attributes:
        known: the times of each model, by the device's name.
    """

    known: Mapping[str, Mapping[Model, Times]]

    def compute_ms(self, cell: Cell) -> float | None:
        """Find what a worker of a cell computes in a step.

        Args:
            cell: any.

        Returns:
            Milliseconds: between batches that were replayed by interpolation, beyond them in proportion to the images.
            Of a model that was never replayed on the cell's device: as of those that were, by multiplications. None:
            nothing was replayed on it.
        """
        if not (of_models := self.known.get(cell.devices)):
            return None
        images = cell.batch_size / cell.workers
        model = (cell.model, cell.image_shape)
        if model in of_models:
            return _interpolated(of_models[model], images)
        wanted = images * workload(*model).giga_multiplications
        return median(
            _interpolated(times, wanted / workload(*other).giga_multiplications)
            for other, times in of_models.items()
        )


def replayed(measured: Iterable[Measured]) -> Replayed:
    """Learn what replayed compute takes.

    Args:
        measured: cells, replayed or not.

    Returns:
        What those tell whose compute was replayed.
    """
    known: dict[str, dict[Model, Times]] = defaultdict(lambda: defaultdict(list))
    for each in measured:
        if each.replayed_ms is not None:
            times = known[each.cell.devices][each.cell.model, each.cell.image_shape]
            pair = (each.cell.batch_size / each.cell.workers, each.replayed_ms)
            if pair not in times:
                insort(times, pair)
    return Replayed({device: dict(of_models) for device, of_models in known.items()})


def _interpolated(times: Times, images: float) -> float:
    known, times_ms = zip(*times, strict=True)
    within: float = min(max(images, known[0]), known[-1])
    return float(np.interp(within, known, times_ms)) * images / within
