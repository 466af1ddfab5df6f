"""The parts of a step for a profile, whatever framework trains it: how parts are to each other, and the whole.

Marks between parts take time too. So a step is timed whole, and another one with marks divides that time.
"""

import resource
from collections.abc import Sequence
from statistics import median
from typing import Protocol, TypedDict

WARMUP_STEPS = 3
LEARNING_RATE, MOMENTUM = 1e-6, 0.9
CLASSES_OF_ANY = 10


class Step(Protocol):
    """A step of training that is timed, whole or in parts."""

    def whole(self) -> float:
        """Train a step.

        Returns:
            Its time in ms.
        """

    def parts(self) -> tuple[float, list[float], float]:
        """Train a step, whose time is longer by what the marks take.

        Returns:
            The time of the forward pass, of the backward pass before each parameter array from the last to the first,
            and of the optimizer, in ms.
        """


class Parts(TypedDict):
    """A step as config/devices.yaml has it: the whole is the sum of its parts."""

    forward_ms: float
    backward_ms: list[float]
    optimizer_ms: float


class Profiled(Parts):
    """The same, and what it was made of: the times of steps without marks."""

    steps_ms: list[float]


def profiled(step: Step, steps: int) -> Profiled:
    """Measure a step that is warm: medians of several, whole and in parts by turns.

    Args:
        step: of training.
        steps: how many count.

    Returns:
        Its parts, which together take as long as the whole without marks, and these times.
    """
    wholes, parts = zip(*((step.whole(), step.parts()) for _ in range(steps)), strict=True)
    return Profiled(**scaled(median(wholes), *zip(*parts, strict=True)), steps_ms=list(wholes))


def scaled(
    step_ms: float,
    forward_ms: Sequence[float],
    backward_ms: Sequence[Sequence[float]],
    optimizer_ms: Sequence[float],
) -> Parts:
    """Divide a step's time as the medians of its parts are to each other.

    Their sum is another one: marks take time too, and medians do not add up.

    Args:
        step_ms: of the whole, without marks.
        forward_ms: of each step with marks.
        backward_ms: of each of these, before each parameter array.
        optimizer_ms: of each of these.

    Returns:
        The parts, which together are `step_ms`.
    """
    forward, optimizer = median(forward_ms), median(optimizer_ms)
    backward = [median(times) for times in zip(*backward_ms, strict=True)]
    factor = step_ms / (forward + sum(backward) + optimizer)
    return Parts(
        forward_ms=factor * forward,
        backward_ms=[factor * each for each in backward],
        optimizer_ms=factor * optimizer,
    )


def between(start_ms: float, times_ms: Sequence[float]) -> list[float]:
    """Compute how long each of several events comes after those before it.

    Args:
        start_ms: when the first one is waited for.
        times_ms: of the events in order; one may come before those that stand before it.

    Returns:
        The time that passes until each, in ms; 0 for one that is already there.
    """
    found = []
    for time_ms in times_ms:
        found.append(max(0.0, time_ms - start_ms))
        start_ms = max(start_ms, time_ms)
    return found


def peak_memory_mb() -> float:
    """Read the most memory that this process has had.

    Returns:
        Resident MB.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
