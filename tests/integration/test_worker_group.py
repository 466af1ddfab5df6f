"""Synchronous training by real PyTorch workers: what N of them compute is what one computes."""

import copy
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ddlbench.datasets import prepare
from tests.support.sandboxes import run_inside
from tests.support.tiny_study import TINY_STUDY

POINTS = {
    "even": {"model": "mlp", "batch_size": 64, "seed": 1},
    "again": {"model": "mlp", "batch_size": 64, "seed": 1},
    "other_seed": {"model": "mlp", "batch_size": 64, "seed": 2},
    "uneven": {"model": "mlp", "batch_size": 33, "seed": 1},  # 16 images and 17
    "convolutions": {"model": "conv2", "batch_size": 32, "seed": 1},
}


@pytest.fixture(scope="module")
def measured_by(
    tmp_path_factory: pytest.TempPathFactory, torch_environment: dict[str, Any]
) -> Callable[..., list[dict[str, Any]]]:
    """What worker groups report of ten steps at each point."""
    digits = tmp_path_factory.mktemp("digits") / "digits.npz"
    prepare("digits", {}, digits)

    def measure(points: Iterable[dict[str, Any]], **group: Any) -> list[dict[str, Any]]:
        common = {"python": torch_environment["python"], "datasets": {"digits-28x28x1": str(digits)}}
        folder = tmp_path_factory.mktemp("group")
        return run_inside(folder, "trainings", points=list(points), **group, **common)

    return measure


@pytest.fixture(scope="module")
def trained(measured_by) -> dict[int, dict[str, Any]]:
    """What one worker and two report, by number of workers and point."""
    return {
        workers: dict(zip(POINTS, measured_by(POINTS.values(), workers=workers), strict=True))
        for workers in (1, 2)
    }


@pytest.fixture(scope="module")
def by_share(measured_by) -> list[dict[str, Any]]:
    """What a worker alone on its core reports when its share is the whole core, half of it, and the whole again."""
    points = [{"model": "cnn", "batch_size": 256, "seed": 1}]
    return [measured_by(points, workers=1, core_share=share)[0] for share in (1.0, 0.5, 1.0)]


def hashes(answer: dict[str, Any]) -> list[str]:
    return [rank["parameters_sha256"] for rank in answer["ranks"]]


@pytest.mark.parametrize("point", POINTS)
def test_all_ranks_end_with_the_same_parameters(trained, point):
    one, two = hashes(trained[2][point])
    assert one == two


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_seed_gives_the_same_parameters_and_another_seed_others(trained, workers):
    found = trained[workers]
    assert hashes(found["even"]) == hashes(found["again"])
    assert hashes(found["even"]) != hashes(found["other_seed"])


@pytest.mark.parametrize("point", POINTS)
def test_two_workers_with_half_the_batch_each_learn_what_one_learns_with_all_of_it(trained, point):
    (one,), two = trained[1][point]["ranks"], trained[2][point]["ranks"]
    assert two[0]["test_loss"] == pytest.approx(one["test_loss"], rel=1e-5)
    assert two[0]["test_accuracy_percent"] == pytest.approx(one["test_accuracy_percent"], abs=0.3)


def test_the_mean_of_the_ranks_losses_is_the_loss_of_the_whole_batch(trained):
    (one,), two = trained[1]["even"]["ranks"], trained[2]["even"]["ranks"]
    assert sum(rank["train_loss"] for rank in two) / 2 == pytest.approx(one["train_loss"], rel=1e-5)
    assert two[0]["train_loss"] != two[1]["train_loss"]  # each has images of its own


def test_ten_steps_teach_something(trained):
    assert trained[1]["even"]["ranks"][0]["test_loss"] < 2.25  # ln 10 = 2.30 is knowing nothing


def test_every_step_is_timed_and_divided_into_its_parts(trained):
    for rank in trained[2]["even"]["ranks"]:
        (step_times_ms,) = rank["step_times_ms"]
        assert len(step_times_ms) == 10
        assert all(time > 0 for time in step_times_ms)
        mean = sum(step_times_ms) / 10
        assert 0 < rank["forward_ms"] + rank["backward_ms"] < mean
        assert 0 < rank["communication_ms"] < mean


def test_half_a_core_is_one_of_two_parts_of_it_though_nobody_wants_the_other(by_share):
    # What a part then gets of the core is the kernel's matter, and a benchmark's (core_share).
    whole, half, again = (each["parts"] for each in by_share)
    assert whole["fillers"] == again["fillers"] == []
    assert len(half["fillers"]) == len(set(half["fillers"])) == 2
    assert set(half["members"]) < set(half["fillers"])


def test_a_share_of_a_core_changes_nothing_that_is_learnt(by_share):
    whole, half, again = map(hashes, by_share)
    assert whole == half == again


def test_a_batch_that_does_not_fit_is_recorded_with_its_reason_and_the_group_goes_on(prepared):
    study = copy.deepcopy(TINY_STUDY)
    study["hosts"]["pair"]["memory_gb"] = 1.2
    study["grids"]["bandwidth"] |= {"bandwidth_mbit": 200, "model": "conv2", "batch_size": [32, 100_000]}
    prepared.configure(study=study)
    said = prepared.run(prepared.manifest("bandwidth"))
    small, large = (
        [record for record in prepared.records() if record["point"]["batch_size"] == size]
        for size in (32, 100_000)
    )
    assert [record["status"] for record in small] == ["measured", "measured"]
    (refused,) = large
    assert refused["status"] == "does_not_fit"
    assert refused["reason"] == "does not fit into 1.2 GB (the study's host) on h1, h2"
    assert any(record["started"] > refused["ended"] for record in small)
    assert said.count("starting 2 workers") == 1  # the same group all the time
    manifest = json.loads((prepared.root / prepared.manifest("bandwidth")).read_text())
    told = {point["point"]["batch_size"]: (point["status"], point["reason"]) for point in manifest["points"]}
    assert told == {32: ("measured", None), 100_000: ("does_not_fit", refused["reason"])}
