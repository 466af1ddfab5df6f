"""The compute of a replayed step, part by part: a worker says which part comes, and the device's time for it passes.

The parts of a step are the forward pass, then one for each parameter array, from the last array to the first, then the
optimizer. A framework's machinery decides when each is asked for. One that leaves out a part, or changes their order,
measures something else than the device's step, and is stopped.
"""

import random
from collections.abc import Iterator
from itertools import repeat

from ddlbench.protocol.messages import Assignment, ReplayedJitter, ReplayedStep
from ddlbench.workers.common.replay.device import ReplayedDevice, device_of


class ReplayedCompute:
    """What one worker's device does in each step. Until a point is taken, its parts take no time.

    Args:
        arrays: how many parameter arrays the model has.
    """

    def __init__(self, arrays: int) -> None:
        self.arrays = arrays
        self._device: ReplayedDevice | None = None
        self._forward_ms = [0.0] * arrays
        self._backward_ms = [0.0] * arrays
        self._optimizer_ms = 0.0
        self._jitter: ReplayedJitter | None = None
        self._rank, self._factor = 0, 1.0  # by which times of the present step are longer
        self.start_again()
        self._due = 0  # the number of the part that comes next: forward passes, backward passes, optimizer

    def take(self, assignment: Assignment, step: ReplayedStep | None) -> None:
        """Take a point's step.

        Args:
            assignment: of this worker, whose device it is.
            step: its parts; None: they take no time.

        Raises:
            RuntimeError: the model has another number of parameter arrays.
        """
        self._due = 0
        self._device = device_of(assignment, step) if step else None
        if step is None:
            return
        if len(step.backward_ms) != self.arrays:
            raise RuntimeError(
                f"the step has times of {len(step.backward_ms)} parameter arrays, and the model {self.arrays}"
            )
        host = assignment.index // assignment.local_size
        own = next((each for each in step.odd if each.host == host), step)
        self._backward_ms = list(reversed(own.backward_ms))
        self._forward_ms = _divided(own.forward_ms, self._backward_ms)
        self._optimizer_ms = own.optimizer_ms
        self._jitter, self._rank = step.jitter, assignment.rank
        self.start_again()

    def start_again(self) -> None:
        """Let the next step be the first of its repetition, with the first factor that is drawn for it."""
        self._factors = factors(self._jitter, self._rank)

    def forward(self, places: range | None = None) -> None:
        """Let the forward pass take its time, or a part of it that has waited for its parameters.

        A part takes the same share of the forward pass as its arrays take of the backward pass.

        Args:
            places: of the parameter arrays that the part computes with, among all from 0; None: of all.
        """
        places = range(self.arrays) if places is None else places
        self._comes(places.start, len(places))
        if self._device:
            self._device.begin()
            if places.start == 0:
                self._factor = next(self._factors)
            self._device.run(self._factor * sum(self._forward_ms[place] for place in places))

    def backward(self, places: range) -> None:
        """Let the time pass before the gradients of some neighbouring parameter arrays are ready.

        Args:
            places: of the arrays among all from 0; those of later places have been ready before.
        """
        self._comes(2 * self.arrays - places.stop, len(places))
        if self._device:
            self._device.run(self._factor * sum(self._backward_ms[place] for place in places))

    def optimizer(self) -> None:
        """Let the optimizer take its time, once all gradients, or the server's parameters, are there."""
        self._comes(2 * self.arrays, 1)
        self._due = 0
        if self._device:
            self._device.begin()
            self._device.run(self._factor * self._optimizer_ms)

    def _comes(self, first: int, count: int) -> None:
        """Note that parts of the step come.

        Args:
            first: the number of the first one.
            count: how many.

        Raises:
            RuntimeError: another one is due.
        """
        if first != self._due:
            raise RuntimeError(f"part {first} of a replayed step came where part {self._due} was due")
        self._due += count


def factors(jitter: ReplayedJitter | None, rank: int) -> Iterator[float]:
    """Draw by which factor the device takes longer in each step.

    Args:
        jitter: its distribution; None: every step takes the same time.
        rank: of the worker, which has draws of its own.

    Yields:
        A factor for each step, without end.
    """
    if jitter is None:
        yield from repeat(1.0)
        return
    draws = random.Random(f"{jitter.seed}, repetition {jitter.repetition}, rank {rank}")
    while True:
        if jitter.distribution == "lognormal":
            yield draws.lognormvariate(-(jitter.scale**2) / 2, jitter.scale)  # of mean 1
        else:
            yield 1 + jitter.scale * draws.expovariate(1.0)


def _divided(total_ms: float, like_ms: list[float]) -> list[float]:
    """Divide a time as another one is divided; evenly where that one is nothing."""
    whole_ms = sum(like_ms)
    if not whole_ms:
        return [total_ms / len(like_ms)] * len(like_ms)
    return [total_ms * each_ms / whole_ms for each_ms in like_ms]
