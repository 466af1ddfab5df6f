"""Uneven hosts: other devices, slow-downs and jitter, in plans and in what workers replay."""

from itertools import islice
from statistics import fmean

import pytest
from test_filled_hosts import plan_of, point_of, refusal

from ddlbench.measurements.statistics import Total, is_of_a_fixed_number
from ddlbench.plan import load
from ddlbench.plan.point import Point
from ddlbench.protocol.messages import ReplayedJitter
from ddlbench.sweep.repetition import training_point
from ddlbench.sweep.stop_rule import fewest, needs_repetition
from ddlbench.workers.common.replay.compute import ReplayedCompute, factors
from tests.support.assignments import assignment
from tests.support.repository import REPOSITORY

REPLAYED = {
    "workers": [2],
    "compute": "replay",
    "model": "resnet50",
    "dataset": "synthetic",
    "image_shape": "224x224x3",
    "batch_size": 64,
    "epochs": 0,
}
SLOW = {"device": "k80", "uneven": [{"host": 2, "slowdown": 1.5}]}


def taken_ms(point: Point, rank: int) -> float:
    """What the whole step takes on a worker's device."""
    step = training_point(point).replay
    compute = ReplayedCompute(len(step.backward_ms))
    compute.take(assignment(rank, 2, dilation=10, strategy="ring_allreduce"), step)
    return sum(compute._forward_ms) + sum(compute._backward_ms) + compute._optimizer_ms


def test_a_slow_host_takes_its_factor_and_its_neighbour_does_not(tmp_path):
    point = point_of(tmp_path, hosts=SLOW, **REPLAYED)
    assert taken_ms(point, 0) == pytest.approx(point.replay.step_ms)
    assert taken_ms(point, 1) == pytest.approx(1.5 * point.replay.step_ms)
    assert "host 2 is 1.5 times as slow" in point.uneven.name
    assert Point.from_dict(point.as_dict()) == point


def test_a_host_with_another_device_takes_that_devices_time(tmp_path):
    other = {"device": "k80", "uneven": [{"host": 1, "device": "p100"}]}
    point = point_of(tmp_path, hosts=other, **REPLAYED)
    assert taken_ms(point, 0) < 0.5 * taken_ms(point, 1)
    assert taken_ms(point, 1) == pytest.approx(point.replay.step_ms)


def test_hosts_that_a_point_does_not_use_change_nothing_of_it(tmp_path):
    point = point_of(tmp_path, hosts=SLOW, **REPLAYED | {"workers": [1], "batch_size": 32})
    assert point.uneven is None
    assert "uneven" not in point.as_dict()


def test_the_host_of_a_server_alone_is_not_said_to_be_slow(tmp_path):
    keys = REPLAYED | {"workers": [1], "batch_size": 32, "strategy": "parameter_server_async"}
    point = point_of(tmp_path, hosts=SLOW, **keys)
    assert point.hosts == 2
    assert point.uneven is None


@pytest.mark.parametrize(("distribution", "mean"), [("lognormal", 1.0), ("exponential", 1.3)])
def test_jitter_is_the_same_for_a_seed_repetition_and_rank_and_has_its_mean(distribution, mean):
    first, again, other_rank, other_repetition = (
        list(islice(factors(ReplayedJitter(distribution, 0.3, 7, repetition), rank), 20_000))
        for repetition, rank in ((2, 0), (2, 0), (2, 1), (3, 0))
    )
    assert first == again
    assert other_rank != first != other_repetition != other_rank
    assert fmean(first) == pytest.approx(mean, rel=0.02)


def test_replayed_points_with_jitter_are_repeated_until_their_interval_is_narrow_as_others_are(tmp_path):
    jitter = {"distribution": "lognormal", "scale": 0.2, "seed": 3}
    steady = point_of(tmp_path / "steady", hosts=SLOW, **REPLAYED)
    varying = point_of(tmp_path / "varying", hosts=SLOW | {"jitter": jitter}, **REPLAYED)
    measure = load(REPOSITORY / "config/paper.yaml", REPOSITORY).settings.measure
    alike, different = [Total(1, 100.0)] * 4, [Total(1, time_ms) for time_ms in (80.0, 100.0, 110.0, 150.0)]
    assert (fewest(steady, measure), fewest(varying, measure)) == (measure.replayed, measure.min_repetitions)
    assert not needs_repetition(steady, different, measure)
    assert needs_repetition(varying, different, measure)
    assert not needs_repetition(varying, alike, measure)
    assert [is_of_a_fixed_number(each.as_dict()) for each in (steady, varying)] == [True, False]


def test_each_repetition_has_draws_of_its_own(tmp_path):
    given = SLOW | {"jitter": {"distribution": "exponential", "scale": 0.2, "seed": 3}}
    point = point_of(tmp_path, hosts=given, **REPLAYED)
    assert training_point(point, repetition=2).replay.jitter == ReplayedJitter("exponential", 0.2, 3, 2)


def test_uneven_hosts_that_compute_for_real_are_refused_with_the_reason(tmp_path):
    assert "the cores that compute here are all alike" in refusal(tmp_path, hosts=SLOW, workers=[2])


def test_a_host_whose_device_has_no_profile_of_the_model_is_refused(tmp_path):
    other = {"device": "k80", "uneven": [{"host": 2, "device": "a100"}]}
    text = refusal(tmp_path, hosts=other, **REPLAYED)
    assert "a100 has no profile of resnet50 on 224x224x3 with 32 images a worker" in text


@pytest.mark.parametrize(
    ("uneven", "words"),
    [
        ([{"host": 3, "slowdown": 2}], "hosts.pair.uneven[0].host: there is no host 3 (expected 1 to 2)"),
        (
            [{"host": 2, "slowdown": 2}, {"host": 2, "device": "p100"}],
            "hosts.pair.uneven[1].host: host 2 is given twice",
        ),
        (
            [{"host": 2, "slowdown": 1}],
            "hosts.pair.uneven[0].host: host 2 is like the others (expected `device` or a `slowdown` above 1)",
        ),
    ],
)
def test_a_host_that_cannot_differ_so_is_refused_with_what_can(tmp_path, uneven, words):
    assert words in refusal(tmp_path, hosts={"device": "k80", "uneven": uneven}, **REPLAYED)


def test_a_cpu_among_gpus_is_refused_as_all_hosts_are_replayed_in_one_way(tmp_path):
    mixed = {"device": "v100", "without_profile": "gap", "uneven": [{"host": 2, "device": "ryzen-5-3600"}]}
    assert "hosts.pair mix v100, a gpu, with ryzen-5-3600, a cpu" in refusal(
        tmp_path, hosts=mixed, **REPLAYED
    )


def test_jitter_is_named_in_the_point(tmp_path):
    given = {"device": "k80", "jitter": {"distribution": "lognormal", "scale": 0.2, "seed": 3}}
    plan = plan_of(tmp_path, hosts=given, **REPLAYED)
    names = {point.uneven.name for run in plan.runs for point in run.points}
    assert names == {"lognormal jitter 0.2 of each step, seed 3"}
