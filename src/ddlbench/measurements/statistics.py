"""Median, 95 % bootstrap interval, and the rule that decides when a point has been measured often enough.

The percentile bootstrap is that of `scipy.stats.bootstrap` (a test compares them), for the median only:
importing SciPy takes 1.5 s, too long for a sweep or a figure.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ddlbench.protocol.measure import StopRule

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

RESAMPLES = 9999
SEED = 1


def median_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Compute the median of some values, and its 95 % bootstrap interval (percentile method, seeded).

    Args:
        values: at least one, in any order.

    Returns:
        median, low, high. For a single value low and high are None, because it does not show the spread.

    Raises:
        ValueError: there is no value.
    """
    import numpy

    if len(values) == 0:
        raise ValueError("no value to take the median of")
    ordered = numpy.sort(numpy.asarray(values, dtype=float))
    median = float(numpy.median(ordered))
    if len(ordered) == 1:
        return median, None, None
    below, above = _middle_ranks(len(ordered))
    medians = (ordered[below] + ordered[above]) / 2
    low, high = numpy.percentile(medians, [2.5, 97.5])
    return median, float(low), float(high)


@lru_cache(maxsize=64)
def _middle_ranks(count: int) -> "tuple[NDArray[numpy.intp], NDArray[numpy.intp]]":
    """The ranks of the two middle values (equal for odd counts) in each resample of `count` sorted values."""
    import numpy

    resamples = numpy.random.default_rng(SEED).integers(0, count, size=(RESAMPLES, count))
    resamples.sort(axis=1)
    return resamples[:, (count - 1) // 2].copy(), resamples[:, count // 2].copy()


def is_stable(values: Sequence[float], interval_percent: float, min_repetitions: int) -> bool:
    """Say whether the median of some values is known well enough.

    Args:
        values: of the repetitions.
        interval_percent: the largest half width of the 95 % interval, in % of the median.
        min_repetitions: the least number of values; two are needed in any case.

    Returns:
        True if there are enough values and their interval is narrow enough.
    """
    if len(values) < max(2, min_repetitions):
        return False
    median, low, high = median_interval(values)
    return low is not None and high is not None and (high - low) / 2 <= interval_percent / 100 * abs(median)


def needs_repetition(values: Sequence[float], rule: StopRule) -> bool:
    """Say whether a point must be measured once more.

    Args:
        values: the step times of its repetitions so far.
        rule: the numbers of repetitions, and the largest half width of the interval.

    Returns:
        True below the least number; False from the largest number on; in between, True until the values are stable.
    """
    if len(values) < rule.min_repetitions:
        return True
    if len(values) >= rule.max_repetitions:
        return False
    return not is_stable(values, rule.interval_percent, rule.min_repetitions)
