"""Estimates with intervals, and the rule that says when a quantity has been measured often enough.

A time is a sum over steps: repetitions are pooled, all time by all steps. Other quantities have a median. An interval
is called one of 95 % only if it covers the truth that often, also after a stop rule has looked at it several times:
`benchmarks/coverage.py` simulates this.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from ddlbench.devices.alike import steps_are_alike
from ddlbench.protocol.measure import StopRule
from ddlbench.protocol.tcp import RTO_MIN_MS

# The smallest numbers of values with an interval; the bounds of fewer values are only their range.
FEWEST = 4  # where a stop rule looks at them, or few steps may have met no time-out
FEWEST_OF_A_FIXED_NUMBER = 2
FEWEST_OF_A_MEDIAN = 5

_SEEN_OF_A_TIMEOUT = 0.5  # the rest of it may overlap with computing
_BLOCK_STEPS = 6
_DIFFER_BELOW = 0.25  # level of the F test: so high that it seldom misses a difference (T. A. Bancroft, 1944)

# Of Student's t. It is above 95 %, because the stop rule ends sampling when an interval is narrow by chance.
_NOMINAL_LEVEL = 0.97
_LEAST_LEVEL = 0.93  # of a median's interval; with few values, the ranks allow only coarse levels


class Estimate(NamedTuple):
    """A value with its bounds: of an interval of 95 %, or the range of few values; None for one value."""

    value: float
    low: float | None
    high: float | None

    @property
    def half_width_percent(self) -> float:
        """Half the distance of the bounds, in percent of the value; infinite without bounds."""
        if self.low is None or self.high is None:
            return math.inf
        return 50 * (self.high - self.low) / abs(self.value) if self.value else math.inf


@dataclass(frozen=True)
class Total:
    """The steps of a repetition, and what they took together.

    Attributes:
        amount: of all steps: milliseconds, or bytes.
        steps: how many.
        step_times_ms: of each, where the link loses packets; elsewhere empty.
    """

    amount: float
    steps: int
    step_times_ms: tuple[float, ...] = ()


def pooled(repetitions: Sequence[Total], fewest: int = FEWEST) -> Estimate:
    """What a step takes: what all repetitions took, divided by their steps.

    The interval is Student's t over repetitions of the ratio's logarithm (delta method; W. G. Cochran, Sampling
    Techniques, 3rd edition, section 6.4). So it holds what differs between repetitions, steps may depend on each other
    within one, and no bound is negative.

    On a link that loses packets, steps differ by the time-outs that they wait for, much more than repetitions do. There
    it is Student's t over blocks of steps (batch means), unless an F test finds that repetitions differ. A time-out may
    also be too rare to have been met. So the upper bound holds as many as there may well have been in so many steps
    (F. Garwood, Fiducial limits for the Poisson distribution, Biometrika 28, 1936; without any it is the rule of
    three), each of the shortest time.

    Args:
        repetitions: at least one; each has steps and an amount that is not negative.
        fewest: so many have an interval.

    Returns:
        Milliseconds, or bytes, a step.

    Raises:
        ValueError: there is no repetition.
    """
    if not repetitions:
        raise ValueError("no repetition to estimate a time from")
    steps = sum(each.steps for each in repetitions)
    mean = math.fsum(each.amount for each in repetitions) / steps
    count = len(repetitions)
    if count == 1:
        return Estimate(mean, None, None)
    if count < fewest:
        means = [each.amount / each.steps for each in repetitions]
        return Estimate(mean, min(means), max(means))
    lossy = [each.step_times_ms for each in repetitions if each.step_times_ms]
    parts = repetitions
    if lossy and not _differ(blocks := [_blocks(each) for each in lossy], mean):
        parts = [block for of_repetition in blocks for block in of_repetition]
    squares = math.fsum(_excess(part, mean) ** 2 for part in parts)
    error = math.sqrt(len(parts) / (len(parts) - 1) * squares) / steps
    factor = math.exp(_student(len(parts) - 1) * error / mean) if mean else 1.0
    unmet_ms = _unmet_timeouts(lossy) * RTO_MIN_MS / steps
    return Estimate(mean, mean / factor, max(mean * factor, mean + unmet_ms))


def expected_narrowing(count: int, later: int) -> float:
    """How much narrower the interval of a time is expected to be after more repetitions.

    Args:
        count: of repetitions, at least two.
        later: of repetitions then.

    Returns:
        The later width by the one now.
    """
    return _student(later - 1) / _student(count - 1) * math.sqrt(count / later)


def _blocks(step_times_ms: Sequence[float]) -> list[Total]:
    """A repetition in blocks of about as many steps: time-outs in neighbouring steps may have the same cause."""
    count = max(1, len(step_times_ms) // _BLOCK_STEPS)
    ends = [len(step_times_ms) * number // count for number in range(count + 1)]
    parts = [step_times_ms[begin:end] for begin, end in pairwise(ends)]
    return [Total(math.fsum(part), len(part)) for part in parts]


def _differ(blocks: Sequence[Sequence[Total]], mean: float) -> bool:
    """Whether repetitions differ by more than their blocks explain (F test), or have too few blocks to tell."""
    between_freedom, within_freedom = len(blocks) - 1, sum(map(len, blocks)) - len(blocks)
    if within_freedom < between_freedom:
        return True
    from scipy.special import fdtrc

    excess = [[_excess(block, mean) for block in of_repetition] for of_repetition in blocks]
    between = math.fsum(math.fsum(each) ** 2 / len(each) for each in excess)
    within = math.fsum(value**2 for each in excess for value in each) - between
    if within <= 0:
        return between > 0
    ratio = between / between_freedom / (within / within_freedom)
    return float(fdtrc(between_freedom, within_freedom, ratio)) < _DIFFER_BELOW


def _excess(part: Total, mean: float) -> float:
    return part.amount - mean * part.steps


def _unmet_timeouts(lossy: Sequence[Sequence[float]]) -> float:
    """How many more time-outs there may well have been in all steps than there were; 0 if the link loses nothing."""
    count = sum(map(_timeouts, lossy))
    return _most_events(count) - count if lossy else 0.0


def _timeouts(step_times_ms: Sequence[float]) -> int:
    """The steps that waited for a time-out: that took far longer than the fastest. 0 if that one waited, too."""
    least_ms = min(step_times_ms) + _SEEN_OF_A_TIMEOUT * RTO_MIN_MS
    return sum(time_ms > least_ms for time_ms in step_times_ms)


def median_interval(values: Sequence[float]) -> Estimate:
    """The median, and the interval between two of the sorted values that holds it whatever their distribution is.

    The truth is below the k-th of n values with the probability that a fair coin shows heads fewer than k times in n
    throws. (W. J. Conover, Practical Nonparametric Statistics, 3rd edition, section 3.2.)

    Args:
        values: at least one.

    Returns:
        In the unit of the values.

    Raises:
        ValueError: there is no value.
    """
    if not values:
        raise ValueError("no value to take the median of")
    ordered, count = sorted(map(float, values)), len(values)
    median = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    if count == 1:
        return Estimate(median, None, None)
    rank = _rank(count)
    return Estimate(median, ordered[rank], ordered[-1 - rank])


def is_of_a_fixed_number(point: Mapping[str, Any]) -> bool:
    """Tell whether no interval decides how often a point is repeated.

    Args:
        point: as a record or a manifest holds it.

    Returns:
        True for a training to an accuracy, and where steps are alike.
    """
    return bool(point.get("epochs")) or steps_are_alike(point)


def needs_repetition(values: Sequence[float], rule: StopRule) -> bool:
    """Whether a quantity that has a median must be measured once more.

    Args:
        values: those of its repetitions so far.
        rule: when it has been measured often enough.

    Returns:
        Whether there are too few values, or their interval is too wide and more of them are allowed.
    """
    if len(values) < rule.min_repetitions:
        return True
    if len(values) >= rule.max_repetitions:
        return False
    return len(values) < 2 or median_interval(values).half_width_percent > rule.interval_percent


@lru_cache(maxsize=64)
def _student(freedom: int) -> float:
    """The quantile of Student's t with so many degrees of freedom, for an interval with two bounds."""
    from scipy.special import stdtrit  # where a figure or a sweep needs an interval; it takes half a second

    return float(stdtrit(freedom, (1 + _NOMINAL_LEVEL) / 2))


@lru_cache(maxsize=64)
def _most_events(count: int) -> float:
    """The upper bound of the mean number of events (Poisson) of which `count` were met; of an interval of 95 %."""
    from scipy.special import gammaincinv

    return float(gammaincinv(count + 1, 0.975))


@lru_cache(maxsize=64)
def _rank(count: int) -> int:
    """The index of the lower bound of a median's interval among `count` sorted values; 0: the bounds are the range."""
    outside, rank = 2.0 ** (1 - count), 0  # the probability that the truth is not between the bounds
    while (
        rank + 1 < count // 2
        and (wider := outside + 2 * math.comb(count, rank + 1) / 2**count) <= 1 - _LEAST_LEVEL
    ):
        outside, rank = wider, rank + 1
    return rank
