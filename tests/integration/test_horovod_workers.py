"""Synchronous training by real Horovod workers: N compute what one computes, and what PyTorch's own ring computes."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlbench.datasets import prepare
from tests.support.sandboxes import run_inside
from tests.support.tiny_study import TINY_STUDY

FRAMEWORKS = ("horovod_torch", "horovod_tensorflow")
POINTS = {
    "even": {"model": "mlp", "batch_size": 48, "seed": 1},
    "uneven": {"model": "mlp", "batch_size": 31, "seed": 1},
    "convolutions": {"model": "conv2", "batch_size": 48, "seed": 1},
    "too_large": {"model": "conv2", "batch_size": 500_000, "seed": 1},
    "again": {"model": "mlp", "batch_size": 48, "seed": 1},
}
TRAINED = tuple(name for name in POINTS if name != "too_large")
MLP_BYTES = 4 * 109_386
RARELY = ("HOROVOD_CYCLE_TIME", "100")  # ms: its ranks talk once a cycle for as long as a step lasts


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory,
    torch_environment: dict[str, Any],
    horovod_environment: dict[str, Any],
) -> Callable[..., Any]:
    """A function of `inside`, with a framework and the digits."""
    digits = tmp_path_factory.mktemp("digits") / "digits.npz"
    prepare("digits", {}, digits)

    def call(function: str, framework: str, **more: Any) -> Any:
        environment = torch_environment if framework == "torch" else horovod_environment
        return run_inside(
            tmp_path_factory.mktemp("group"),
            function,
            python=environment["python"],
            datasets={"digits-28x28x1": str(digits)},
            framework=framework,
            **more,
        )

    return call


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory) -> Callable[[str, int], dict[str, Any]]:
    """What a framework's workers report of ten steps at each point, and the parameters that they end with."""
    found: dict[tuple[str, int], dict[str, Any]] = {}

    def train(framework: str, workers: int) -> dict[str, Any]:
        if (framework, workers) not in found:
            folder = tmp_path_factory.mktemp("parameters")
            points = {
                name: point | {"save_to": str(folder / f"{name}.npz")} for name, point in POINTS.items()
            }
            answers = run("trainings", framework, workers=workers, points=list(points.values()))
            found[framework, workers] = {
                name: answer | {"parameters": parameters(folder / f"{name}.npz")}
                for name, answer in zip(POINTS, answers, strict=True)
            }
        return found[framework, workers]

    return train


def parameters(path: Path) -> np.ndarray:
    if not path.exists():
        return np.empty(0)
    with np.load(path) as arrays:
        return np.concatenate([array.ravel() for array in arrays.values()])


def hashes(answer: dict[str, Any]) -> list[str]:
    return [rank["parameters_sha256"] for rank in answer["ranks"]]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("point", TRAINED)
def test_n_workers_with_an_nth_of_the_batch_reach_the_parameters_of_one_with_all_of_it(
    trained, framework, workers, point
):
    alone, together = (trained(framework, number)[point]["parameters"] for number in (1, workers))
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("point", TRAINED)
def test_all_ranks_end_with_the_same_parameters(trained, framework, workers, point):
    found = hashes(trained(framework, workers)[point])
    assert len(found) == workers
    assert len(set(found)) == 1


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_point_that_comes_again_begins_anew(trained, framework):
    """With two workers: what three add up depends, in its last bits, on which gradients travel together."""
    found = trained(framework, 2)
    assert hashes(found["again"]) == hashes(found["even"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_horovod_learns_what_pytorchs_own_ring_learns(trained, framework):
    horovod, torch = (trained(each, 2)["convolutions"] for each in (framework, "torch"))
    np.testing.assert_allclose(horovod["parameters"], torch["parameters"], atol=1e-4)
    losses = [each["ranks"][0]["test_loss"] for each in (horovod, torch)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)  # the issue asks for 1e-3


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_batch_that_does_not_fit_is_refused_by_all_and_the_group_goes_on(trained, framework):
    found = trained(framework, 2)
    assert found["too_large"]["fits"] == [False, False]
    assert found["again"]["fits"] == [True, True]


def test_every_step_is_timed_and_divided_into_its_parts(trained):
    for rank in trained("horovod_torch", 2)["convolutions"]["ranks"]:
        (step_times_ms,) = rank["step_times_ms"]
        assert len(step_times_ms) == 10
        mean = sum(step_times_ms) / 10
        assert 0 < rank["forward_ms"] + rank["backward_ms"] < mean
        assert 0 < rank["communication_ms"] < mean


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_horovods_ring_moves_two_n_minus_one_over_n_of_the_model(run, framework, monkeypatch):
    monkeypatch.setenv(*RARELY)
    point = {"model": "mlp", "batch_size": 48, "seed": 1}
    found = run("bytes_of_a_step", framework, strategy="ring_allreduce", point=point, workers=3)
    assert found["sent"] == [pytest.approx(2 * 2 / 3 * MLP_BYTES, rel=0.05)] * 3


def test_a_sweep_measures_horovod_and_after_a_lossy_link_with_the_same_workers(prepared, horovod_environment):
    study = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"] |= {
        "framework": list(FRAMEWORKS),
        "bandwidth_mbit": 200,
        "loss_percent": [0, 0.1],
    }
    prepared.configure({"measure": {"max_steps": 2}}, study)
    stamp = prepared.root / ".environments/horovod/environment.json"
    stamp.parent.mkdir()
    stamp.write_text(json.dumps(horovod_environment))
    said = prepared.run("results/tables/tiny2000_fig1.csv")
    found = prepared.records()
    assert [record["status"] for record in found] == ["measured"] * 4 * len(FRAMEWORKS)
    assert all(record["parameters_identical"] for record in found)
    assert said.count("starting 2 workers") == len(FRAMEWORKS)
