"""The steps that a worker has made on its own, as it tells them, timed."""

from collections.abc import Sequence
from typing import NamedTuple


class MadeStep(NamedTuple):
    """A step of a worker: how long it took, in ms, and its mean loss, in nats."""

    time_ms: float
    loss: float


def made_steps(steps: Sequence[Sequence[float]]) -> list[MadeStep]:
    """Time the steps that a worker has made since it had nothing to do.

    Each lasts from the end of the one before it, so that waiting for the next one counts. The first lasts from its own
    start: before it the worker waited for the coordinator, which looked at what others had made.

    Args:
        steps: in any order; start and end by its host's clock (s since 1970), mean loss (nats).

    Returns:
        The steps in order.
    """
    ordered = sorted(steps, key=tuple)
    begins = [each[0] for each in ordered[:1]] + [ended for _, ended, _ in ordered[:-1]]
    return [
        MadeStep(1e3 * (ended - began), loss) for began, (_, ended, loss) in zip(begins, ordered, strict=True)
    ]
