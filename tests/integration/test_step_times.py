"""The time of a step that workers tell holds the whole of it, in each framework and strategy: on real links."""

import pytest

from ddlbench.plan.catalogue import FRAMEWORKS
from ddlbench.workers.common.memory import parameter_bytes
from ddlbench.workers.strategies import STRATEGIES
from tests.support.sandboxes import run_inside
from tests.support.selection import needing_environments

MODEL, SHAPE, BANDWIDTH_MBIT, STEPS = "cnn", (28, 28, 1), 100.0, 3
REPLAY = {"kind": "gpu", "forward_ms": 1.0, "backward_ms": [1.0] * 8, "optimizer_ms": 1.0}
WORKERS = {"ring_allreduce": 2, "ring_allreduce_fp16": 2}  # others: one and a server
CASES = [
    (name, strategy, replayed)
    for name, framework in FRAMEWORKS.items()
    for replayed, strategies in ((False, framework.strategies), (True, framework.replays))
    for strategy in strategies
    if strategy in WORKERS or STRATEGIES[strategy].servers
]
ASYNCHRONOUS = [case for case in CASES if not STRATEGIES[case[1]].is_synchronous]


def batched(times_ms: list[float], workers: int) -> list[list[float]]:
    """The times of all workers, step by step."""
    return [times_ms[first : first + workers] for first in range(0, len(times_ms), workers)]


def least_transfers(framework: str, strategy: str) -> float:
    """How many times a model passes a host's link in one direction, one after the other, in a step at least."""
    if strategy in WORKERS:
        return 0.5 if strategy.endswith("_fp16") else 1  # 2(N-1)/N of it
    return 1 if framework == "mxnet" else 2  # MXNet pulls each array as soon as the server has it


@pytest.fixture
def steps(request, tmp_path, digits):
    """Train steps of a case on a link of 100 Mbit/s; what `steps_on_a_slow_link` tells of them."""

    def train(framework, strategy, replayed, *, workers, times, delay_s=0.0, counted=0):
        environment = request.getfixturevalue(f"{FRAMEWORKS[framework].environment}_environment")
        return run_inside(
            tmp_path,
            "steps_on_a_slow_link",
            python=environment["python"],
            datasets={"digits-28x28x1": str(digits)},
            framework=framework,
            strategy=strategy,
            workers=workers,
            replayed=replayed,
            point={"model": MODEL, "batch_size": 16, "seed": 1, "replay": REPLAY if replayed else None},
            bandwidth_mbit=BANDWIDTH_MBIT,
            times=times,
            delay_s=delay_s,
            counted=counted,
        )

    return train


@pytest.mark.parametrize(("framework", "strategy", "replayed"), needing_environments(CASES))
def test_no_step_is_shorter_than_its_bytes_take_on_the_link(steps, framework, strategy, replayed):
    workers = WORKERS.get(strategy, 1)
    counted = STEPS * workers
    found = steps(framework, strategy, replayed, workers=workers, times=STEPS, counted=counted)
    times_ms = found["step_times_ms"]
    least_ms = least_transfers(framework, strategy) * parameter_bytes(MODEL, SHAPE) * 8e-3 / BANDWIDTH_MBIT
    assert len(times_ms) == STEPS * workers
    assert found["told_by_heartbeats"] == [counted]
    # A burst may pass at once. Of workers, one that a busy machine has put aside may find there what the others have
    # sent meanwhile; the first of them waits for all of it.
    of_steps = batched(times_ms, workers)
    assert min(map(max, of_steps)) > 0.95 * least_ms


@pytest.mark.parametrize(("framework", "strategy", "replayed"), needing_environments(ASYNCHRONOUS))
@pytest.mark.long
def test_workers_that_wait_for_nobody_begin_one_after_another(steps, framework, strategy, replayed):
    (took_s,) = steps(framework, strategy, replayed, workers=3, times=1, delay_s=3.0)["answered_s"]
    assert took_s > 6.0  # when the third begins: nobody sleeps for less, however busy the machine is
