"""No step is faster than its link lets it, though links take turns while the workers stay the same."""

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
        "bandwidth_mbit": 200,
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
def test_steps_take_their_latencies_on_a_link_that_comes_after_a_lossy_one(repetitions_ms):
    """That connections which remember the loss are replaced is `test_after_loss`'s."""
    # Two hops, each of which takes Gloo two ways: four latencies. A worker that a busy machine has put aside may find
    # what the other has sent meanwhile, but of one step at most.
    for steps_ms in repetitions_ms:
        assert sum(steps_ms) > 0.95 * 4 * LATENCY_MS * (len(steps_ms) - 1)
