"""Median, bootstrap interval and stop rule."""

import numpy
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from ddlbench.measurements.statistics import RESAMPLES, SEED, is_stable, median_interval, needs_repetition
from ddlbench.protocol.measure import StopRule

RULE = StopRule(min_repetitions=3, max_repetitions=6, interval_percent=10)
TIMES = st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=12)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 20])
def test_the_interval_is_scipys_percentile_bootstrap(count):
    values = numpy.sort(numpy.random.default_rng(count).lognormal(size=count))
    peer = scipy.stats.bootstrap(
        (values,),
        numpy.median,
        n_resamples=RESAMPLES,
        method="percentile",
        vectorized=True,
        rng=numpy.random.default_rng(SEED),
    ).confidence_interval
    assert median_interval(list(values)) == pytest.approx(
        (numpy.median(values), peer.low, peer.high), rel=1e-12
    )


@given(TIMES)
def test_the_interval_holds_the_median_and_lies_within_the_values(values):
    median, low, high = median_interval(values)
    assert min(values) <= low <= median <= high <= max(values)
    assert median == numpy.median(values)


@given(TIMES, st.randoms())
def test_the_interval_does_not_depend_on_the_order_of_the_repetitions(values, random):
    shuffled = random.sample(values, len(values))
    assert median_interval(shuffled) == median_interval(values)


@given(TIMES, st.sampled_from([0.25, 2.0, 1024.0]))
def test_the_stop_rule_does_not_depend_on_the_unit(values, factor):
    assert is_stable([factor * value for value in values], 10, 3) == is_stable(values, 10, 3)


def test_95_of_100_intervals_hold_the_true_median():
    random = numpy.random.default_rng(1)
    held = sum(
        low <= 0 <= high for _, low, high in (median_interval(random.normal(size=15)) for _ in range(300))
    )
    assert 0.90 <= held / 300 <= 0.99


def test_one_value_has_no_interval():
    assert median_interval([3.5]) == (3.5, None, None)


def test_equal_values_have_an_interval_without_width():
    assert median_interval([3.5] * 4) == (3.5, 3.5, 3.5)
    assert is_stable([3.5] * 4, 10, 3)


def test_no_values_have_no_median():
    with pytest.raises(ValueError, match="no value"):
        median_interval([])


@given(st.lists(st.floats(1, 100), max_size=10))
def test_a_point_is_repeated_until_it_is_stable_and_never_more_often_than_the_cap(values):
    if len(values) < 3:
        assert needs_repetition(values, RULE)
    elif len(values) >= 6:
        assert not needs_repetition(values, RULE)
    else:
        assert needs_repetition(values, RULE) != is_stable(values, 10, 3)


def test_the_stop_rule_takes_the_half_width_in_percent_of_the_median():
    values = [90.0, 100.0, 110.0]  # the interval of three values is their range
    assert is_stable(values, 10, 3)
    assert not is_stable(values, 9.99, 3)
    assert not is_stable(values, 10, 4)
