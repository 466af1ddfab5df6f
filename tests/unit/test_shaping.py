"""How large bursts, trains and queues of a link are."""

import pytest

from ddlbench.network.link import Link
from ddlbench.network.shaping import burst_bytes, queue_bytes, train_bytes


@pytest.mark.parametrize("bandwidth_mbit", [1, 10, 100, 400, 1000, 2000, 10_000, 100_000])
def test_a_train_of_segments_is_what_the_kernel_can_make(bandwidth_mbit):
    assert 10 * 1514 < train_bytes(Link(bandwidth_mbit)) <= 65536


@pytest.mark.parametrize("bandwidth_mbit", [1, 100, 2000, 100_000])
def test_a_burst_holds_a_train_and_what_a_late_timer_owes(bandwidth_mbit):
    link = Link(bandwidth_mbit)
    in_a_quarter_ms = bandwidth_mbit * 125 / 4
    assert burst_bytes(link) == int(train_bytes(link) + in_a_quarter_ms)


def test_a_burst_carries_little_of_a_gradient_for_free():
    gradient = 109_386 * 4  # of the smallest model, mlp
    assert burst_bytes(Link(400)) < 0.1 * gradient


@pytest.mark.parametrize("latency_ms", [0, 10, 100])
def test_a_queue_holds_a_round_trip_and_more(latency_ms):
    link = Link(1000, latency_ms)
    bytes_per_ms = 1000 * 125
    assert queue_bytes(link) > 2 * latency_ms * bytes_per_ms + burst_bytes(link)
