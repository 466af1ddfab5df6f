"""Training through MXNet's kvstores: what N workers and a server compute is what one worker computes."""

import copy
import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.support.sandboxes import run_inside
from tests.support.small_steps import ways
from tests.support.tiny_study import TINY_STUDY

POINTS = {
    "even": {"model": "mlp", "batch_size": 66, "seed": 1},
    "again": {"model": "mlp", "batch_size": 66, "seed": 1},
    "other_seed": {"model": "mlp", "batch_size": 66, "seed": 2},
    "uneven": {"model": "mlp", "batch_size": 32, "seed": 1},  # 10, 11 and 11 images for three
    "convolutions": {"model": "conv2", "batch_size": 30, "seed": 1},
}
SYNCHRONOUS = {1: "parameter_server_sync", 2: "parameter_server_device_sync", 3: "parameter_server_sync"}


@pytest.fixture(scope="module")
def measured_by(tmp_path_factory, mxnet_environment, digits) -> Callable[..., list[dict[str, Any]]]:
    """What worker groups report of ten steps at each point."""

    def measure(points: Iterable[dict[str, Any]], **group: Any) -> list[dict[str, Any]]:
        return run_inside(
            tmp_path_factory.mktemp("group"),
            "trainings",
            points=list(points),
            **{"framework": "mxnet", "python": mxnet_environment["python"]} | group,
            datasets={"digits-28x28x1": str(digits)},
        )

    return measure


@pytest.fixture(scope="module")
def trained(measured_by, tmp_path_factory) -> dict[int, dict[str, Any]]:
    """What the workers of one, two and three report, by point, and the parameters in the end."""
    folder = tmp_path_factory.mktemp("parameters")
    found: dict[int, dict[str, Any]] = {}
    for workers, strategy in SYNCHRONOUS.items():
        points = {
            name: point | {"save_to": str(folder / f"{name}-{workers}.npz")} for name, point in POINTS.items()
        }
        answers = measured_by(points.values(), workers=workers, strategy=strategy)
        found[workers] = {
            name: {"workers": answer["ranks"][:workers], "parameters": arrays(point["save_to"])}
            for (name, point), answer in zip(points.items(), answers, strict=True)
        }
    return found


def arrays(path: str) -> list[np.ndarray]:
    with np.load(path) as file:
        return [file[name] for name in file]


def hashes(answer: dict[str, Any]) -> set[str]:
    return {worker["parameters_sha256"] for worker in answer["workers"]}


@pytest.mark.parametrize("workers", SYNCHRONOUS)
@pytest.mark.parametrize("point", POINTS)
def test_all_workers_end_with_the_same_parameters_bit_for_bit(trained, point, workers):
    assert len(hashes(trained[workers][point])) == 1


@pytest.mark.parametrize("workers", [1, 2])  # of three, the sum of gradients depends on who was first
def test_nothing_of_one_training_is_left_at_the_server_in_the_next(trained, workers):
    found = trained[workers]
    assert hashes(found["even"]) == hashes(found["again"]) != hashes(found["other_seed"])


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("point", POINTS)
def test_workers_with_their_shares_of_the_batch_learn_what_one_learns_with_all_of_it(trained, point, workers):
    for one, many in zip(trained[1][point]["parameters"], trained[workers][point]["parameters"], strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-4, atol=1e-6)


def test_the_losses_of_all_images_are_the_loss_of_the_whole_batch(trained):
    (one,), three = trained[1]["even"]["workers"], trained[3]["even"]["workers"]
    assert np.mean([worker["train_loss"] for worker in three]) == pytest.approx(one["train_loss"], rel=1e-5)


def test_mxnet_and_pytorch_agree_on_the_loss_after_ten_steps(trained, measured_by, torch_environment):
    in_torch = measured_by(
        POINTS.values(),
        workers=1,
        framework="torch",
        strategy="ring_allreduce",
        python=torch_environment["python"],
    )
    for point, answer in zip(POINTS, in_torch, strict=True):
        (one,) = trained[1][point]["workers"]
        for loss in ("train_loss", "test_loss"):
            assert one[loss] == pytest.approx(answer["ranks"][0][loss], abs=1e-3), point


def test_asynchronous_workers_make_their_own_steps_and_go_where_all_of_their_gradients_lead(
    measured_by, tmp_path
):
    train = partial(measured_by, strategy="parameter_server_async")
    together, each, (one, two, scheduler, server) = ways(train, tmp_path, POINTS["even"], workers=2)
    assert [len(worker["step_times_ms"][0]) for worker in (one, two)] == [10, 10]
    assert scheduler["step_times_ms"] == server["step_times_ms"] == []
    assert np.linalg.norm(each - together) < 0.05 * np.linalg.norm(together)


def test_an_eighth_of_a_core_is_one_of_eight_parts_of_it_and_learns_the_same(measured_by):
    sync = {"workers": 1, "strategy": "parameter_server_sync"}
    point = {"model": "cnn", "batch_size": 256, "seed": 1, "steps": 4}
    whole, eighth = (measured_by([point], core_share=share, **sync)[0] for share in (1.0, 0.125))
    worker, *_ = eighth["parts"]["members"]
    on_its_core = [
        each for each in eighth["parts"]["fillers"] if each.split("cores")[1] == worker.split("cores")[1]
    ]
    assert len(on_its_core) == len(set(on_its_core)) == 8
    assert worker in on_its_core
    assert whole["ranks"][0]["parameters_sha256"] == eighth["ranks"][0]["parameters_sha256"]


def test_a_server_moves_the_parameters_twice_a_worker_and_step(tmp_path, mxnet_environment, digits):
    found = run_inside(
        tmp_path,
        "bytes_of_a_step",
        python=mxnet_environment["python"],
        datasets={"digits-28x28x1": str(digits)},
        framework="mxnet",
        strategy="parameter_server_sync",
        point={"model": "cnn", "batch_size": 30, "seed": 1},
        workers=3,
        servers=1,
    )
    size = 4 * 431_080
    assert found["received"][3] + found["sent"][3] == pytest.approx(3 * 2 * size, rel=0.05)
    for worker in range(3):
        assert found["sent"][worker] == pytest.approx(size, rel=0.05)
        assert found["received"][worker] == pytest.approx(size, rel=0.05)


def test_a_batch_that_does_not_fit_is_refused_and_the_group_goes_on(measured_by):
    large = {"model": "conv2", "batch_size": 100_000, "seed": 1}
    sync = {"workers": 2, "strategy": "parameter_server_sync", "memory_gb": 1.2}
    refused, fine = measured_by([large, POINTS["convolutions"]], **sync)
    assert refused["fits"] == [False, False, True, True]
    assert all(fine["fits"])
    assert len(fine["ranks"]) == 4


def test_a_sweep_trains_with_mxnet(prepared, mxnet_environment):
    study = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"] |= {
        "bandwidth_mbit": 200,
        "model": "conv2",
        "framework": "mxnet",
        "strategy": ["parameter_server_sync", "parameter_server_async"],
    }
    prepared.configure(study=study)
    stamp = prepared.root / ".environments/mxnet/environment.json"
    stamp.parent.mkdir(parents=True)
    stamp.write_text(json.dumps(mxnet_environment))
    prepared.run("tiny2000_fig1")
    records = prepared.records()
    assert {record["status"] for record in records} == {"measured"}
    assert {(record["point"]["strategy"], record["synchronous"]) for record in records} == {
        ("parameter_server_sync", True),
        ("parameter_server_async", False),
    }
    assert {record["parameter_count"] for record in records} == {61_706}
