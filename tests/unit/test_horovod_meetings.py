"""When workers of Horovod whose compute is replayed meet; Horovod itself is made up."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.protocol.messages import Connect, ModelShape, Prepare, ReplayedStep, TrainingPoint
from ddlbench.workers.common.replay.compute import ReplayedCompute
from ddlbench.workers.horovod import replay
from tests.support.assignments import assignment

SHAPE = (28, 28, 1)
STEP = ReplayedStep("gpu", 1.0, [1.0, 1.0], 1.0, dilation=40.0)


@pytest.fixture
def dilations(monkeypatch) -> list[float]:
    """The time dilation of each meeting."""
    found: list[float] = []

    @contextmanager
    def meeting(assignment, number):
        found.append(assignment.dilation)
        yield

    monkeypatch.setattr(replay, "meeting", meeting)
    return found


def worker() -> Any:
    """A worker of a made-up framework, whose steps do nothing."""

    class Worker(replay.HorovodWorker):
        def model(self, name, shape):
            return SimpleNamespace(compute=ReplayedCompute(2), parameter_count=10, step=lambda: None)

    hvd = SimpleNamespace(is_initialized=lambda: False, init=lambda: None)
    return Worker(assignment(0, 2, dilation=4.0, strategy="ring_allreduce"), hvd)


def point() -> TrainingPoint:
    return TrainingPoint("mlp", SHAPE, "synthetic", 8, 0.1, 0.0, STEP)


def test_workers_meet_at_the_dilation_that_they_are_told_and_so_not_again_on_shaped_links(dilations):
    one = worker()
    one.connect(Connect([ModelShape("mlp", SHAPE)], 40.0))
    one.prepare(Prepare(point(), seed=1))
    assert dilations == [40.0]


def test_a_dilation_that_is_chosen_later_is_another_meeting(dilations):
    one = worker()
    one.connect(Connect([ModelShape("mlp", SHAPE)]))
    one.prepare(Prepare(point(), seed=1))
    one.prepare(Prepare(point(), seed=2))
    assert dilations == [4.0, 40.0]
