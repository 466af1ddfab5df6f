"""The parts of a replayed step, and what must come of the gradients of replayed workers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.plan.catalogue import MODELS
from ddlbench.protocol.messages import Assignment, ReplayedJitter, ReplayedStep, Train
from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.common.replay.arrays import check, check_parameters, parameter_shapes
from ddlbench.workers.common.replay.compute import ReplayedCompute
from ddlbench.workers.common.replay.worker import ReplayWorker
from tests.support.assignments import assignment

STEP = ReplayedStep("gpu", forward_ms=3.0, backward_ms=[1.0, 2.0, 4.0], optimizer_ms=5.0)


def of_three(strategy: str = "ring_allreduce", index: int = 0) -> Assignment:
    return assignment(index, 3, dilation=2.0, strategy=strategy)


class Noted:
    """A device that notes what it is given."""

    def __init__(self) -> None:
        self.did: list[object] = []

    def begin(self) -> None:
        self.did.append("begin")

    def run(self, time_ms: float) -> None:
        self.did.append(round(time_ms, 9))


@pytest.fixture
def noted(monkeypatch) -> Noted:
    device = Noted()
    monkeypatch.setattr("ddlbench.workers.common.replay.compute.device_of", lambda *_: device)
    return device


@pytest.fixture
def compute(noted) -> ReplayedCompute:
    made = ReplayedCompute(3)
    made.take(of_three(), STEP)
    return made


def test_a_step_has_the_parts_of_its_profile_from_the_last_array_to_the_first(compute, noted):
    compute.forward()
    for place in (2, 1, 0):
        compute.backward(range(place, place + 1))
    compute.optimizer()
    assert noted.did == ["begin", 3.0, 1.0, 2.0, 4.0, "begin", 5.0]


def test_jitter_begins_anew_with_each_repetition_whatever_steps_came_before_it(noted):
    """Steps that do not count come before the first one, or do not, as worker groups and links happen to be new."""
    jitter = ReplayedJitter("lognormal", scale=0.5, seed=1, repetition=2)

    def first_step(uncounted: int) -> list[object]:
        made = ReplayedCompute(3)
        made.take(of_three(), replace(STEP, jitter=jitter))
        for _ in range(uncounted):
            step(made)
        made.start_again()
        noted.did.clear()
        step(made)
        return list(noted.did)

    def step(made: ReplayedCompute) -> None:
        made.forward()
        made.backward(range(3))
        made.optimizer()

    assert first_step(0) == first_step(1) == first_step(3)
    assert first_step(0) != ["begin", 3.0, 7.0, "begin", 5.0]


def test_arrays_of_a_layer_are_ready_together(compute, noted):
    compute.forward()
    compute.backward(range(1, 3))
    compute.backward(range(1))
    compute.optimizer()
    assert noted.did == ["begin", 3.0, 3.0, 4.0, "begin", 5.0]


def test_a_forward_pass_by_array_is_divided_as_the_backward_pass(compute, noted):
    for place in range(3):
        compute.forward(range(place, place + 1))
    assert noted.did == ["begin", round(12 / 7, 9), "begin", round(6 / 7, 9), "begin", round(3 / 7, 9)]


@pytest.mark.parametrize(
    "skip",
    [
        lambda it: it.backward(range(2, 3)),  # no forward pass
        lambda it: (it.forward(), it.backward(range(1, 2))),  # no last array
        lambda it: (it.forward(), it.optimizer()),  # no backward pass
        lambda it: (it.forward(), it.forward()),
    ],
)
def test_a_step_that_leaves_out_a_part_is_stopped(compute, skip):
    with pytest.raises(RuntimeError, match=r"part \d of a replayed step came where part \d was due"):
        skip(compute)


def test_a_step_of_another_model_is_refused(noted):
    with pytest.raises(RuntimeError, match="times of 3 parameter arrays, and the model 4"):
        ReplayedCompute(4).take(of_three(), STEP)


def test_a_step_before_any_point_is_taken_takes_no_time():
    compute = ReplayedCompute(2)
    compute.forward()
    compute.backward(range(2))
    compute.optimizer()


@pytest.mark.parametrize(("name", "shape"), [("cnn", (28, 28, 1)), ("resnet18", (32, 32, 3))])
def test_arrays_have_the_shapes_of_the_models_first_weights(name, shape):
    assert "x".join(map(str, shape)) in MODELS[name]
    assert [*parameter_shapes(name, shape)] == [each.shape for each in initial(name, shape, seed=1)]


def test_a_sum_that_misses_a_worker_is_found():
    check("sum", [[6.0, 6.0]], 6.0, 6.0)
    with pytest.raises(RuntimeError, match=r"sum 1 begins and ends with \[6.0, 5.0\], not with 6"):
        check("sum", [[6.0, 6.0], [6.0, 5.0]], 6.0, 6.0)


def test_workers_of_a_synchronous_server_have_all_updates_and_of_an_asynchronous_one_their_own():
    check_parameters(of_three("parameter_server_sync"), 2, [[-12.0, -12.0]])
    check_parameters(of_three("parameter_server_async", index=1), 2, [[-4.0, -12.0]])
    with pytest.raises(RuntimeError, match="not with 12"):
        check_parameters(of_three("parameter_server_sync"), 2, [[-11.0, -12.0]])
    with pytest.raises(RuntimeError, match="not with between 4 and 12"):
        check_parameters(of_three("parameter_server_async", index=1), 2, [[-3.0, -12.0]])


def test_a_worker_that_has_begun_anew_waits_for_the_others_before_its_first_step():
    did = []

    class Waiting(ReplayWorker[Any]):
        def await_others(self) -> None:
            did.append("wait")

    worker = Waiting(of_three())
    worker.point = SimpleNamespace(
        start_again=lambda: did.append("begin anew"),
        compute=SimpleNamespace(start_again=lambda: None),
        step=lambda: did.append("step"),
        parts=dict,
    )
    worker.train(Train(2, from_fresh=True))
    assert did == ["begin anew", "wait", "step", "step"]
