"""Estimates, their intervals, and the stop rule of what has a median."""

import math

import numpy
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.coverage import AT_LEAST_PERCENT, coverage
from ddlbench.measurements.metrics import bounds_of
from ddlbench.measurements.statistics import (
    FEWEST,
    FEWEST_OF_A_FIXED_NUMBER,
    Total,
    median_interval,
    needs_repetition,
    pooled,
)
from ddlbench.plan import load
from ddlbench.protocol.measure import StopRule
from tests.support.repository import REPOSITORY

RULE = StopRule(min_repetitions=3, max_repetitions=6, interval_percent=10)
TIMES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=12)
AMOUNTS = st.one_of(st.just(0.0), st.floats(1e-3, 1e6))  # bytes may be none
REPETITIONS = st.lists(st.builds(Total, AMOUNTS, st.integers(1, 50)), min_size=1, max_size=12)


def of_one_step(times_ms):
    return [Total(time, 1) for time in times_ms]


@given(REPETITIONS)
def test_a_step_takes_all_time_by_all_steps(repetitions):
    assert pooled(repetitions).value == pytest.approx(
        sum(each.amount for each in repetitions) / sum(each.steps for each in repetitions)
    )


@given(REPETITIONS)
def test_the_value_lies_between_its_bounds_and_no_bound_is_negative(repetitions):
    value, low, high = pooled(repetitions)
    if len(repetitions) == 1:
        assert (low, high) == (None, None)
    else:
        assert 0 <= low <= value * (1 + 1e-9)
        assert high >= value * (1 - 1e-9)


@pytest.mark.parametrize("count", [5, 8, 12])
def test_the_interval_is_scipys_t_interval_of_the_logarithm(count):
    times = numpy.random.default_rng(count).uniform(90, 110, count)
    error = scipy.stats.sem(times) / times.mean()  # of the logarithm, by the delta method
    peer = scipy.stats.t.interval(0.97, count - 1, math.log(times.mean()), error)
    assert pooled(of_one_step(times.tolist()))[1:] == pytest.approx(numpy.exp(peer), rel=1e-9)


def test_repetitions_of_several_steps_have_the_interval_of_their_means():
    times = [9.0, 10.0, 11.0, 10.5, 9.5]
    assert pooled([Total(7 * time, 7) for time in times]) == pytest.approx(pooled(of_one_step(times)))


def test_fewer_than_four_times_have_their_range():
    assert pooled(of_one_step([3.0, 1.0, 2.0])) == (2.0, 1.0, 3.0)


@pytest.mark.parametrize("times", [[100.0, 101.0], [99.0, 100.0, 104.0]])
def test_of_a_fixed_number_two_times_have_an_interval(times):
    error = scipy.stats.sem(times) / numpy.mean(times)
    peer = scipy.stats.t.interval(0.97, len(times) - 1, math.log(numpy.mean(times)), error)
    found = pooled(of_one_step(times), FEWEST_OF_A_FIXED_NUMBER)
    assert found[1:] == pytest.approx(numpy.exp(peer), rel=1e-9)


def test_a_median_has_an_interval_from_five_values_on():
    rows = [{"repetitions": count, "bounds": "interval"} for count in (1, 4, 5)]
    assert [bounds_of("test_accuracy_percent", row) for row in rows] == [None, "range", "interval"]


def test_trainings_that_diverged_are_no_values_of_a_loss():
    row = {"repetitions": 5, "bounds": "interval", "diverged": 1}
    assert bounds_of("test_loss", row) == "range"
    assert bounds_of("test_accuracy_percent", row) == "interval"


def test_a_stalled_repetition_of_one_step_does_not_weigh_as_much_as_one_of_twenty():
    stalled, whole = Total(1000.0, 1), Total(200.0, 20)
    assert pooled([stalled, whole]).value == pytest.approx(1200 / 21)


def test_where_packets_are_lost_the_upper_bound_holds_the_time_outs_that_were_not_met():
    lucky = [Total(160.0, 16, (10.0,) * 16)] * 4
    most = scipy.stats.chi2.ppf(0.975, 2) / 2  # of the mean number: almost the rule of three
    assert pooled(lucky) == (10.0, 10.0, pytest.approx(10 + most * 200 / 64))
    assert pooled([Total(160.0, 16)] * 4) == (10.0, 10.0, 10.0)


def of_steps(*step_times_ms):
    return [Total(math.fsum(times), len(times), tuple(times)) for times in step_times_ms]


def test_where_packets_are_lost_blocks_of_steps_give_the_interval_unless_repetitions_differ():
    random = numpy.random.default_rng(4)
    alike = [random.permutation(10 + 200 * (numpy.arange(16) % 3 == 0)) for _ in range(4)]
    means = [block.mean() for times in alike for block in numpy.split(times, 2)]
    error = scipy.stats.sem(means) / numpy.mean(means)
    peer = scipy.stats.t.interval(0.97, 7, math.log(numpy.mean(means)), error)
    assert pooled(of_steps(*alike)).low == pytest.approx(math.exp(peer[0]), rel=1e-9)
    unlike = of_steps(*(factor * times for factor, times in zip((1, 3, 1, 3), alike, strict=True)))
    assert pooled(unlike).low == pooled([Total(each.amount, each.steps) for each in unlike]).low


def test_repetitions_of_less_than_two_blocks_are_not_divided():
    short = of_steps([10.0, 300.0], [10.0, 250.0], [12.0, 220.0], [11.0, 280.0])
    assert pooled(short).low == pooled([Total(each.amount, each.steps) for each in short]).low


@given(TIMES)
def test_the_interval_of_a_median_lies_within_the_values(values):
    value, low, high = median_interval(values)
    assert value == numpy.median(values)
    if len(values) > 1:
        assert min(values) <= low <= value <= high <= max(values)


@pytest.mark.parametrize("count", [5, 6, 8, 9, 12, 20, 100])
def test_the_interval_of_a_median_is_between_the_ranks_that_the_binomial_distribution_gives(count):
    low, high = median_interval(list(range(count)))[1:]
    assert low + high == count - 1
    outside = 2 * scipy.stats.binom.cdf(low, count, 0.5)
    assert outside <= 0.07
    assert 2 * scipy.stats.binom.cdf(low + 1, count, 0.5) > 0.07


@pytest.mark.long
def test_what_is_called_95_percent_holds_the_truth_at_least_93_times_of_100():
    held = coverage(load(REPOSITORY / "config/config.yaml", REPOSITORY), trials=150, seed=1)
    percent = {kind: 100 * sum(of_cases) / len(of_cases) for kind, of_cases in held.items()}
    assert len(percent) == 8
    assert not {kind: found for kind, found in percent.items() if found < AT_LEAST_PERCENT}


def test_no_values_have_no_estimate():
    with pytest.raises(ValueError, match="no value"):
        median_interval([])
    with pytest.raises(ValueError, match="no repetition"):
        pooled([])


@given(st.lists(st.floats(1, 100), max_size=10))
def test_a_median_is_measured_until_its_interval_is_narrow_and_never_more_often_than_the_cap(values):
    if len(values) < 3:
        assert needs_repetition(values, RULE)
    elif len(values) >= 6:
        assert not needs_repetition(values, RULE)
    else:
        assert needs_repetition(values, RULE) == (median_interval(values).half_width_percent > 10)


@given(st.lists(st.floats(1e-3, 1e6), min_size=FEWEST, max_size=12), st.sampled_from([0.25, 2.0, 1024.0]))
def test_widths_do_not_depend_on_the_unit(values, factor):
    scaled = [factor * value for value in values]
    assert pooled(of_one_step(scaled)).half_width_percent == pytest.approx(
        pooled(of_one_step(values)).half_width_percent
    )
