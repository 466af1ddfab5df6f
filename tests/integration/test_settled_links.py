"""A step takes what it takes on its link, whatever links were there before it."""

import copy

import pytest

from tests.support.pipeline import Pipeline
from tests.support.tiny_study import TINY_STUDY

LATENCY_MS = 40


@pytest.fixture
def repetitions_ms(prepared: Pipeline) -> list[list[float]]:
    """The steps of each repetition on a link of 40 ms that takes turns with one that loses 5 % of all packets."""
    study = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"] |= {
        "model": "conv1",
        "bandwidth_mbit": 1000,
        "loss_percent": 5,
        "include": [{"loss_percent": 0, "latency_ms": LATENCY_MS}],
    }
    prepared.configure(
        {"measure": {"min_repetitions": 4, "max_repetitions": 4, "min_steps": 6, "max_steps": 6}}, study
    )
    prepared.run(prepared.manifest("bandwidth"))
    slow = [record for record in prepared.records() if record["point"]["latency_ms"] == LATENCY_MS]
    assert len(slow) == 4
    return [record["step_times_ms"][0] for record in slow]


@pytest.mark.long
def test_packet_loss_on_one_link_slows_no_step_on_the_next(repetitions_ms):
    # Two hops, each of which takes Gloo two ways: four latencies, and no step can be faster. A window that remembers
    # the loss costs all steps of a repetition many more; a busy moment of the machine costs some of them something.
    for steps_ms in repetitions_ms:
        assert min(steps_ms) > 0.95 * 4 * LATENCY_MS
        assert min(steps_ms) < 10 * LATENCY_MS
