"""The arrays of workers whose compute is replayed: their shapes, what fills gradients, and what must come of them.

A worker fills its gradients with its number from 1. So the sum over all workers is known, whatever a framework does to
get it, and a sum that was left out, or is of fewer workers, is found. Rings that sum in place make the same of it in
each step after the first, so that there only the first is checked.
"""

from collections.abc import Iterable, Iterator, Sequence

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.models.architectures import layers
from ddlbench.workers.common.models.layers import Shape, flat, parameters_of

_TOLERANCE, _TOLERANCE_16_BITS = 1e-4, 0.05


def parameter_shapes(name: str, shape: Shape) -> Iterator[tuple[int, ...]]:
    """List the shapes of a model's parameter arrays, in the canonical order and axes.

    Args:
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).

    Yields:
        Those of each layer, as of `layers.parameters_of`.
    """
    for layer in flat(layers(name, shape)):
        yield from parameters_of(layer)


def own_value(assignment: Assignment) -> float:
    """Choose what a worker fills its gradients with.

    Args:
        assignment: of the worker.

    Returns:
        Its number from 1.
    """
    return assignment.index + 1.0


def sum_of_values(world_size: int) -> float:
    """Add up what all workers fill theirs with.

    Args:
        world_size: how many there are.

    Returns:
        The sum.
    """
    return world_size * (world_size + 1) / 2


def check(
    what: str, ends: Iterable[Sequence[float]], low: float, high: float, *, in_16_bits: bool = False
) -> None:
    """Check what a framework has made of all workers' gradients.

    Args:
        what: it is, for the error.
        ends: the first and the last element of each array.
        low: what they must be at least, positive.
        high: what they may be at most; the same as `low` where workers wait for one another.
        in_16_bits: they have been rounded to 16 bits in many steps.

    Raises:
        RuntimeError: an element is not between these.
    """
    tolerance = _TOLERANCE_16_BITS if in_16_bits else _TOLERANCE
    for place, each in enumerate(ends):
        if not all(low * (1 - tolerance) <= value <= high * (1 + tolerance) for value in each):
            expected = f"{low:g}" if low == high else f"between {low:g} and {high:g}"
            raise RuntimeError(f"{what} {place} begins and ends with {list(each)}, not with {expected}")


def check_parameters(assignment: Assignment, steps: int, ends: Iterable[Sequence[float]]) -> None:
    """Check the parameters that a worker has from a server: zeros, less every gradient that was applied.

    Args:
        assignment: of the worker; its strategy says whether workers wait for one another.
        steps: how many each worker has made since the parameters were zeros.
        ends: the first and the last element of each array.

    Raises:
        RuntimeError: an update is missing: one by any worker, or of those that do not wait, one by this worker.
    """
    by_all = steps * sum_of_values(assignment.world_size)
    waits = not assignment.strategy.endswith("_async")
    low = by_all if waits else steps * own_value(assignment)
    check("parameter", ([-end for end in each] for each in ends), low, by_all)
