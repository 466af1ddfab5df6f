"""Amdahl's law: the speed-up of threads that were not measured, and how sure it is."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlbench.shares.amdahl import speedup, thread_counts


def times(serial_ms: float, counts: list[int], *, noise: float, seed: int) -> dict[int, list[float]]:
    """Five times of each number of threads of a step of 10 ms, of which some ms are one thread's alone."""
    random = Random(seed)
    means = {count: serial_ms + (10 - serial_ms) / count for count in counts}
    return {
        count: [mean * random.lognormvariate(0, noise) for _ in range(5)] for count, mean in means.items()
    }


def truth(serial_ms: float, threads: int) -> float:
    return 10 / (serial_ms + (10 - serial_ms) / threads)


@pytest.mark.parametrize("serial_ms", [0.0, 1.0, 5.0, 10.0])
@pytest.mark.parametrize("threads", [1, 2, 4, 32])
def test_without_noise_the_law_is_found(serial_ms, threads):
    found = speedup(times(serial_ms, [1, 2], noise=0, seed=1), threads)
    assert found.value == pytest.approx(truth(serial_ms, threads))
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("counts", [[1, 2], [1, 2, 4], [1, 2, 4, 8]])
@pytest.mark.parametrize("serial_ms", [0.5, 2.0, 6.0])
def test_an_interval_of_95_percent_holds_the_truth_that_often(counts, serial_ms):
    found = [speedup(times(serial_ms, counts, noise=0.05, seed=seed), 4) for seed in range(1000)]
    assert sum(each.low <= truth(serial_ms, 4) <= each.high for each in found) >= 930


def test_what_the_law_misses_makes_the_interval_wider():
    kept = {1: [10.0, 10.01], 2: [6.0, 6.01], 4: [4.0, 4.01]}
    missed = kept | {4: [6.0, 6.01]}  # four threads are no faster than two
    (_, low, high), (_, wide_low, wide_high) = speedup(kept, 8), speedup(missed, 8)
    assert wide_high - wide_low > 10 * (high - low)


@given(
    st.lists(st.floats(0.1, 100), min_size=2, max_size=6),
    st.lists(st.floats(0.1, 100), min_size=2, max_size=6),
    st.integers(1, 64),
)
def test_whatever_was_measured_no_speedup_is_more_than_the_threads_or_less_than_none(one, two, threads):
    value, low, high = speedup({1: one, 2: two}, threads)
    assert 1 <= low <= value <= high <= threads


@pytest.mark.parametrize("few", [{1: [1.0, 1.0]}, {1: [1.0, 1.0], 2: [1.0]}, {}])
def test_too_little_is_no_law(few):
    with pytest.raises(ValueError, match="two numbers of threads"):
        speedup(few, 4)


@pytest.mark.parametrize(
    ("cores", "vcpus", "counts"),
    [(2, 4, [1, 2]), (1, 4, [1]), (64, 4, [1, 2, 4]), (6, 8, [1, 2, 4, 6]), (64, 6, [1, 2, 4, 6])],
)
def test_threads_are_measured_as_far_as_there_are_cores_and_vcpus(cores, vcpus, counts):
    assert thread_counts(cores, vcpus) == counts
