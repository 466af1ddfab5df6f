"""How sure a choice is, against draws of what each option may turn out to be."""

import numpy as np
import pytest

from ddlbench.prediction.certainty import Uncertain

DRAWS = 400_000
CASES = {
    "two that are close": ([0, 0], [1.0, 1.1], [0.1, 0.2]),
    "one that is known and one that is hardly": ([0, 0], [1.0, 1.3], [0.005, 0.8]),
    "with fixed costs": ([0.5, 0.1, 0.0], [1.0, 1.3, 1.6], [0.3, 0.1, 0.2]),
    "many alike": ([0] * 12, [1 + 0.02 * i for i in range(12)], [0.1] * 12),
    "whose means are in another order": ([0, 0, 0], [1.0, 1.1, 1.2], [0.9, 0.1, 0.05]),
    "one far behind": ([0, 0], [1.0, 50.0], [0.05, 0.1]),
}


def uncertain(fixed, median, deviation):
    return Uncertain(*(np.array(each, dtype=float) for each in (fixed, median, deviation)))


def drawn(values):
    noise = np.random.default_rng(7).standard_normal((DRAWS, len(values.fixed)))
    return values.fixed + values.median * np.exp(values.deviation * noise)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_probabilities_are_the_shares_of_draws_in_which_a_value_is_the_least(case):
    values = uncertain(*case)
    shares = np.bincount(drawn(values).argmin(axis=1), minlength=len(values.fixed)) / DRAWS
    assert values.probabilities() == pytest.approx(shares, abs=0.01)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gains_are_what_draws_gain_by_taking_one_where_it_is_less_than_the_first_of_the_others(case):
    values = uncertain(*case)
    samples = drawn(values)
    medians = values.fixed + values.median
    taken = samples[:, medians.argmin()].mean()
    expected = []
    for number, own in enumerate(samples.T):
        others = [each for each in medians.argsort() if each != number]
        other = samples[:, others[0]]
        gain = taken - np.where(own < medians[others[0]], own, other).mean()
        expected.append(max(gain, 0.0))
    assert values.gains() == pytest.approx(expected, abs=0.003 * taken)


def test_what_is_far_behind_gains_nothing_at_all():
    assert uncertain(*CASES["one far behind"]).gains().tolist() == [0, 0]


def test_a_value_alone_is_the_least_and_gains_nothing():
    alone = uncertain([0.0], [2.0], [0.3])
    assert (alone.probabilities().tolist(), alone.gains().tolist()) == ([1.0], [0.0])


def test_values_that_are_certain_are_compared_and_equal_ones_share():
    certain = uncertain([1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [0.1, 0.1, 0.1])
    assert certain.probabilities() == pytest.approx([0.5, 0, 0.5])
    assert certain.gains() == pytest.approx([0, 0, 0])
    beside = uncertain([1.0, 0.0], [0.0, 1.0], [0.1, 0.1])
    assert beside.probabilities() == pytest.approx([0.5, 0.5], abs=0.01)
