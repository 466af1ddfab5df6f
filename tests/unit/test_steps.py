"""How many steps a repetition has."""

from dataclasses import replace
from itertools import permutations

import pytest

from ddlbench.devices.alike import steps_are_alike
from ddlbench.devices.device import Replay
from ddlbench.devices.uneven import Jitter, Uneven
from ddlbench.plan import load
from ddlbench.plan.point import Inside
from ddlbench.plan.sites import Sites, Wire
from ddlbench.protocol.messages import Trained
from ddlbench.sweep import steps as steps_module
from ddlbench.sweep.stagger import AT_ONCE, Stagger
from ddlbench.sweep.steps import (
    FEWEST_OF_LOSSY,
    TrainedSteps,
    is_cold_for,
    joined_times_ms,
    planned_steps,
    train,
    warm_up,
)
from ddlbench.sweep.stop_rule import fewest
from ddlbench.workers.common.memory import parameter_bytes
from ddlbench.workers.strategies import STRATEGIES
from tests.support.repository import REPOSITORY

PLAN = load(REPOSITORY / "config/config.yaml", REPOSITORY)
MEASURE = replace(PLAN.settings.measure, step_budget_s=0.2, min_steps=1, max_steps=50)
POINT = next(point for run in PLAN.runs for point in run.points if point.bandwidth_mbit and not point.replay)


class Steps:
    """A worker group whose steps take given times, of a clock that they move."""

    def __init__(self, times_ms):
        self.times_ms, self.now_s = list(times_ms), 0.0

    def train(self, steps, from_fresh=False, delay_s=0.0):
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
    parts = train(group, 16, budget_s=0.2).parts
    assert [len(part[0].step_times_ms[0]) for part in parts] == [4] * (trained // 4)


@pytest.mark.parametrize(
    ("step_ms", "most", "trained"), [(10.0, 3, 3), (150.0, 3, 2), (300.0, 3, 1), (10.0, 1, 1), (10.0, 0, 0)]
)
def test_warming_up_takes_no_longer_than_a_repetition_but_for_its_first_step(step_ms, most, trained):
    group = Steps([step_ms] * 16)
    assert warm_up(group, replace(MEASURE, warmup_steps=most)) == trained
    assert len(group.times_ms) == 16 - trained


def a_replay(kind="gpu"):
    return Replay(
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


def replaying(kind="gpu", jitter=None, **others):
    return replace(POINT, replay=a_replay(kind), uneven=Uneven("all alike", (), jitter), **others)


def between_sites(**of_wan):
    link = Wire(100.0, 1.0)
    wans = {pair: replace(link, **of_wan) for pair in permutations(("a", "b"))}
    return Sites("two", (("a", link), ("b", link)), tuple(wans.items()))


def replayed(**values):
    point = replaying(**values)
    return planned_steps(Steps([]), replace(MEASURE, min_steps=3), point, dilation=100.0)


def test_one_step_is_enough_where_a_gpus_compute_is_replayed_and_nothing_is_drawn_at_random():
    assert replayed() == (1, 0)
    assert replayed(kind="cpu") == (3, 0)
    assert replayed(jitter=Jitter("lognormal", 0.1, 1)) == (3, 0)
    assert replayed(strategy="parameter_server_async") == (3, 0)  # the order of its workers
    assert replayed(loss_percent=1.0) == (FEWEST_OF_LOSSY, 0)
    assert replayed(sites=between_sites()) == (1, 0)
    assert replayed(sites=between_sites(jitter_ms=0.5)) == (3, 0)


def test_replays_are_repeated_until_their_interval_is_narrow_where_chance_has_a_part_in_them():
    measure = replace(MEASURE, replayed=1, min_repetitions=4, trainings=3)
    assert fewest(replaying(), measure) == fewest(replaying(sites=between_sites()), measure) == 1
    assert fewest(replaying(strategy="parameter_server_async", workers=1), measure) == 1
    assert fewest(replaying(epochs=1, loss_percent=1.0), measure) == 3
    by_chance = (
        {"jitter": Jitter("lognormal", 0.1, 1)},
        {"loss_percent": 1.0},
        {"strategy": "parameter_server_async"},
        {"sites": between_sites(jitter_ms=0.5)},
        {"sites": between_sites(loss_percent=1.0)},
    )
    assert [fewest(replaying(**each), measure) for each in by_chance] == [4] * 5


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_steps_of_several_workers_are_alike_where_these_take_them_together(strategy):
    point = replaying(strategy=strategy, workers=2)
    assert steps_are_alike(point.as_dict()) == STRATEGIES[strategy].is_synchronous


def test_replayed_compute_warms_up_only_tcps_windows_of_new_connections():
    waiting, beside, distant = (
        replace(POINT, replay=a_replay(), latency_ms=latency_ms) for latency_ms in (0.0, 0.001, 20.0)
    )
    assert is_cold_for(distant, new_link=True, new_connections=True)
    assert not is_cold_for(distant, new_link=True, new_connections=False)
    assert not is_cold_for(waiting, new_link=True, new_connections=True)
    assert not is_cold_for(beside, new_link=True, new_connections=True)
    assert is_cold_for(POINT, new_link=True, new_connections=False)
    assert is_cold_for(POINT, new_link=False, new_connections=True)
    assert not is_cold_for(POINT, new_link=False, new_connections=False)


def staggered(strategy="parameter_server_async", workers=4, bandwidth_mbit=100.0, **others):
    point = replace(POINT, strategy=strategy, workers=workers, bandwidth_mbit=bandwidth_mbit, **others)
    return Stagger.of(point, 10.0)


def test_workers_that_wait_for_nobody_begin_apart_by_what_the_parameters_take_on_the_link():
    size_mbit = 8e-6 * parameter_bytes(POINT.model, POINT.image_shape)
    assert staggered().delay_s == pytest.approx(10 * size_mbit / 100)  # dilated ten times
    assert staggered(bandwidth_mbit=None).delay_s == 0
    assert staggered("ring_allreduce") == staggered(workers=1) == AT_ONCE
    one_host = staggered(bandwidth_mbit=None, inside=Inside("pcie", 200.0, 0.0))
    assert one_host.delay_s == pytest.approx(10 * size_mbit / 200)


def test_between_sites_workers_begin_apart_by_the_slowest_link_to_the_server():
    far, wan, not_used, lan = (Wire(bandwidth_mbit, 1.0) for bandwidth_mbit in (50, 70, 10, 1000))
    lans = tuple((site, lan) for site in ("a", "b", "server's"))
    wans = dict.fromkeys((("a", "b"), ("b", "a")), not_used)
    wans |= {("a", "server's"): wan, ("server's", "a"): wan, ("b", "server's"): wan, ("server's", "b"): far}
    sites = Sites("three", lans, tuple(wans.items()))
    one_rate = staggered(bandwidth_mbit=50.0)
    assert staggered(bandwidth_mbit=None, sites=sites).delay_s == pytest.approx(one_rate.delay_s)


def test_steps_in_unison_and_those_after_others_have_ended_do_not_count():
    stagger = staggered()
    first, last = [200.0] * stagger.first, [50.0] * stagger.last
    size = 4 * stagger.uncounted  # so many count at least, beside those that do not
    counted = [[float(part)] * size for part in range(2)]
    times_ms = [time for part in counted for time in (*first, *part, *last)]
    trained = train(Steps(times_ms), 2 * size, budget_s=1.0, stagger=stagger)
    assert [part[0].step_times_ms for part in trained.counted] == [[part] for part in counted]
    assert len(trained.times_ms[0]) == 2 * size + trained.uncounted_steps


@pytest.mark.parametrize("strategy", ["parameter_server_sync", "parameter_server_device_sync"])
def test_the_first_step_of_synchronous_workers_of_a_server_does_not_count(strategy):
    assert staggered(strategy, workers=1) == AT_ONCE
    times_ms = [12.0, 10.0, 9.0, 11.0, 10.0]
    trained = train(Steps(times_ms), 4, budget_s=1.0, stagger=staggered(strategy, workers=2))
    assert joined_times_ms(trained.counted) == [times_ms[1:]]
    assert trained.uncounted_steps == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_repetition_is_planned_so_long_that_steps_which_do_not_count_fit_into_it_too(strategy):
    budget = replace(MEASURE, step_budget_s=0.4, min_steps=1)
    point = replace(POINT, strategy=strategy, workers=3)
    steps, _ = planned_steps(Steps([10.0] * 4), budget, point, dilation=1.0)
    group, stagger = Steps([10.0] * 41), Stagger.of(point, 1.0)
    train(group, steps, budget_s=0.4, stagger=stagger)
    assert 1 <= len(group.times_ms) <= 1 + stagger.uncounted


def test_all_steps_of_workers_without_a_server_count_and_of_a_whole_training():
    in_parts = train(Steps([1.0, 2.0]), 2, budget_s=1.0, stagger=staggered("ring_allreduce"))
    whole = train(Steps([1.0, 2.0]), 2, stagger=staggered())
    assert joined_times_ms(in_parts.counted) == joined_times_ms(whole.counted) == [[1.0, 2.0]]


def test_what_steps_that_do_not_count_take_more_is_communication():
    report = Trained([[30.0, 20.0, 19.0], [32.0, 20.0, 21.0]], 0.5, 5.0, 5.0, 10.0 + 11.0 / 3)
    (member,), (silent,) = TrainedSteps([[report], [Trained()]], Stagger(first=1)).counted
    assert member.step_times_ms == [[20.0, 19.0], [20.0, 21.0]]
    assert member.forward_ms + member.backward_ms + member.communication_ms == pytest.approx(20.0)
    assert silent == Trained()


def test_steps_that_fast_workers_have_made_besides_count_for_what_a_step_sends():
    of_all = Trained([[1.0, 2.0], [3.0, 4.0]], made_steps=7)
    of_each = [Trained([[1.0, 2.0]]), Trained([[3.0, 4.0]])]
    assert TrainedSteps([[of_all, Trained(), Trained()]]).steps_of_a_worker == 3.5
    assert TrainedSteps([of_each]).steps_of_a_worker == 2
