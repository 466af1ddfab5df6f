"""How many steps a repetition has."""

from dataclasses import replace

import pytest

from ddlbench.devices.device import Replay
from ddlbench.devices.uneven import Jitter, Uneven
from ddlbench.plan import load
from ddlbench.protocol.messages import Trained
from ddlbench.sweep import steps as steps_module
from ddlbench.sweep.steps import FEWEST_OF_LOSSY, planned_steps, train
from tests.support.repository import REPOSITORY

PLAN = load(REPOSITORY / "config/config.yaml", REPOSITORY)
MEASURE = replace(PLAN.settings.measure, step_budget_s=0.2, min_steps=1, max_steps=50)
POINT = next(point for run in PLAN.runs for point in run.points if point.bandwidth_mbit and not point.replay)


class Steps:
    """A worker group whose steps take given times, of a clock that they move."""

    def __init__(self, times_ms):
        self.times_ms, self.now_s = list(times_ms), 0.0

    def train(self, steps, from_fresh=False):
        taken, self.times_ms = self.times_ms[:steps], self.times_ms[steps:]
        self.now_s += sum(taken) / 1000
        return [Trained(step_times_ms=[taken])]


def planned(times_ms, loss_percent=0.0, **changes):
    point = replace(POINT, loss_percent=loss_percent)
    return planned_steps(Steps(times_ms), replace(MEASURE, **changes), point, dilation=1.0)


@pytest.mark.parametrize(
    ("times_ms", "steps"), [([10.0, 30.0, 10.0, 9.9], (20, 4)), ([90.0, 95.0], (2, 2)), ([300.0], (1, 1))]
)
def test_as_many_steps_as_fit_into_the_budget_by_the_fastest(times_ms, steps):
    assert planned(times_ms) == steps


def test_a_first_step_that_waits_for_a_lost_packet_leaves_enough_steps_to_meet_other_ones():
    assert planned([400.0], loss_percent=5.0) == (FEWEST_OF_LOSSY, 1)
    assert planned([400.0], loss_percent=5.0, max_steps=4) == (4, 1)


@pytest.mark.parametrize(("step_ms", "trained"), [(900.0, 16), (2_100.0, 8), (20_000.0, 4)])
def test_a_repetition_that_stalls_is_cut_and_one_that_waits_for_time_outs_is_not(
    monkeypatch, step_ms, trained
):
    group = Steps([step_ms] * 16)
    monkeypatch.setattr(steps_module, "monotonic", lambda: group.now_s)
    parts = train(group, 16, budget_s=0.2)
    assert [len(part[0].step_times_ms[0]) for part in parts] == [4] * (trained // 4)


def replayed(kind="gpu", jitter=None, loss_percent=0.0):
    replay = Replay(
        name="a device",
        device="v100",
        kind=kind,
        precision="float32",
        origin="computed",
        source="a table",
        forward_ms=100.0,
        backward_ms=[100.0],
        optimizer_ms=100.0,
    )
    point = replace(POINT, replay=replay, loss_percent=loss_percent, uneven=Uneven("all alike", (), jitter))
    return planned_steps(Steps([]), replace(MEASURE, min_steps=3), point, dilation=100.0)


def test_one_step_is_enough_where_a_gpus_compute_is_replayed_and_nothing_is_drawn_at_random():
    assert replayed() == (1, 0)
    assert replayed(kind="cpu") == (3, 0)
    assert replayed(jitter=Jitter("lognormal", 0.1, 1)) == (3, 0)
    assert replayed(loss_percent=1.0) == (FEWEST_OF_LOSSY, 0)
