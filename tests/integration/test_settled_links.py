"""A step takes what it takes on its link, whatever links were there before it."""

import copy

import pytest

from tests.support.pipeline import Pipeline
from tests.support.tiny_study import TINY_STUDY

LATENCY_MS = 40


@pytest.fixture
def steps_ms(prepared: Pipeline) -> list[float]:
    """Every step on a link of 40 ms that takes turns with one that loses 5 % of all packets."""
    study = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"] |= {
        "model": "conv1",
        "bandwidth_mbit": 1000,
        "loss_percent": 5,
        "include": [{"loss_percent": 0, "latency_ms": LATENCY_MS}],
    }
    prepared.configure(
        {"measure": {"min_repetitions": 4, "max_repetitions": 4, "min_steps": 3, "max_steps": 3}}, study
    )
    prepared.run(prepared.manifest("bandwidth"))
    slow = [record for record in prepared.records() if record["point"]["latency_ms"] == LATENCY_MS]
    assert len(slow) == 4
    return [step_ms for record in slow for step_ms in record["step_times_ms"][0]]


def test_packet_loss_on_one_link_slows_no_step_on_the_next(steps_ms):
    # Two hops, each of which takes Gloo two ways: four latencies. A window too small would cost two more at least.
    assert min(steps_ms) == pytest.approx(4 * LATENCY_MS, rel=0.3)
    *others, _ = sorted(steps_ms)  # one of twelve may meet a busy moment of the machine
    assert max(others) < 7 * LATENCY_MS
