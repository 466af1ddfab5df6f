"""PyTorch's strategies by real workers: the parameter server, and rings with compressed gradients.

Models with BatchNorm are left out where N workers are compared with one: each worker normalises by the mean and spread
of its own share of a batch, so that what N of them learn differs by nature, and not by a mistake.
"""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlbench.datasets import prepare
from ddlbench.workers.common.scheduler_slice import SHORTEST_NS, slice_ms
from tests.support.sandboxes import run_inside
from tests.support.small_steps import ways
from tests.support.tiny_study import TINY_STUDY

RING, FP16, POWERSGD = "ring_allreduce", "ring_allreduce_fp16", "ring_allreduce_powersgd"
SYNC, ASYNC = "parameter_server_sync", "parameter_server_async"
EXACT = (RING, SYNC)  # they compute what one worker computes
MODELS = ("mlp", "conv2")
BATCH = 48
MLP_BYTES = 4 * 109_386


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, torch_environment: dict[str, Any]) -> Callable[..., Any]:
    """A function of `inside`, with PyTorch and the digits."""
    digits = tmp_path_factory.mktemp("digits") / "digits.npz"
    prepare("digits", {}, digits)
    common = {"python": torch_environment["python"], "datasets": {"digits-28x28x1": str(digits)}}
    return lambda function, **more: run_inside(tmp_path_factory.mktemp("group"), function, **common, **more)


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory) -> Callable[[str, int], dict[str, Any]]:
    """What a strategy's workers report of ten steps of each model, and with which parameters they end."""
    found: dict[tuple[str, int], dict[str, Any]] = {}

    def train(strategy: str, workers: int) -> dict[str, Any]:
        if (strategy, workers) not in found:
            folder = tmp_path_factory.mktemp("parameters")
            points = [
                {"model": model, "batch_size": BATCH, "seed": 1, "save_to": str(folder / f"{model}.npz")}
                for model in MODELS
            ]
            answers = run("trainings", strategy=strategy, workers=workers, points=points)
            found[strategy, workers] = {
                model: answer["ranks"] + [parameters(folder / f"{model}.npz")]
                for model, answer in zip(MODELS, answers, strict=True)
            }
        return found[strategy, workers]

    return train


def parameters(path: Path) -> np.ndarray:
    with np.load(path) as arrays:
        return np.concatenate([array.ravel() for array in arrays.values()])


def hashes(members: list[dict[str, Any]]) -> set[str]:
    return {member["parameters_sha256"] for member in members}


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("strategy", EXACT)
@pytest.mark.parametrize("model", MODELS)
def test_n_workers_with_an_nth_of_the_batch_reach_the_parameters_of_one_with_all_of_it(
    trained, strategy, workers, model
):
    *_, alone = trained(RING, 1)[model]
    *_, together = trained(strategy, workers)[model]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("strategy", "workers"), [(RING, 2), (RING, 3), (SYNC, 2), (SYNC, 3), (FP16, 3), (POWERSGD, 3)]
)
@pytest.mark.parametrize("model", MODELS)
def test_after_synchronous_training_all_members_have_the_same_parameters(trained, strategy, workers, model):
    *members, _ = trained(strategy, workers)[model]
    assert len(members) == workers + (strategy == SYNC)  # the server is one of them
    assert len(hashes(members)) == 1


@pytest.mark.parametrize("strategy", [FP16, POWERSGD])
def test_what_is_compressed_learns_too(trained, strategy):
    *members, reached = trained(strategy, 3)["mlp"]
    *_, exact = trained(RING, 1)["mlp"]
    assert members[0]["test_loss"] < 2.1  # ln 10 = 2.30 is knowing nothing
    assert not np.allclose(reached, exact, rtol=1e-6, atol=1e-7)  # it is not the plain ring by another name


def test_one_worker_of_an_asynchronous_server_learns_what_it_would_learn_alone(trained):
    *_, reached = trained(ASYNC, 1)["mlp"]
    *_, alone = trained(RING, 1)["mlp"]
    np.testing.assert_allclose(reached, alone, rtol=1e-4, atol=1e-5)


def test_workers_that_wait_for_nobody_go_where_all_of_their_gradients_lead(run, tmp_path):
    point = {"model": "mlp", "batch_size": BATCH, "seed": 1}
    together, each, _ = ways(partial(run, "trainings", strategy=ASYNC), tmp_path, point, workers=3)
    assert np.linalg.norm(each - together) < 0.05 * np.linalg.norm(together)


def test_a_server_times_nothing_and_each_worker_its_own_steps(trained):
    for strategy, count in ((SYNC, 3), (ASYNC, 1)):
        *workers, server, _ = trained(strategy, count)["mlp"]
        assert server["step_times_ms"] == []
        for worker in workers:
            (step_times_ms,) = worker["step_times_ms"]
            assert len(step_times_ms) == 10
            parts_ms = worker["forward_ms"] + worker["backward_ms"] + worker["communication_ms"]
            assert parts_ms == pytest.approx(sum(step_times_ms) / 10, rel=1e-6)


@pytest.mark.parametrize("strategy", [SYNC, ASYNC])
def test_each_worker_pushes_and_pulls_the_model_once_a_step(run, strategy):
    point = {"model": "mlp", "batch_size": BATCH, "seed": 1}
    found = run("bytes_of_a_step", strategy=strategy, point=point, workers=2, servers=1)
    for way, back in (("sent", "received"), ("received", "sent")):
        *workers, server = found[way]
        assert server == pytest.approx(2 * MLP_BYTES, rel=0.05)
        assert workers == [pytest.approx(MLP_BYTES, rel=0.05)] * 2
        assert server == pytest.approx(sum(found[back][:2]), rel=0.05)  # nobody else is talked to


def test_a_ring_moves_the_model_once_between_two_and_with_fp16_half_of_it_and_with_powersgd_next_to_nothing(
    run,
):
    point = {"model": "mlp", "batch_size": BATCH, "seed": 1}
    sent = {
        strategy: run("bytes_of_a_step", strategy=strategy, point=point, workers=2)["sent"][0]
        for strategy in (RING, FP16, POWERSGD)
    }
    assert sent[RING] == pytest.approx(MLP_BYTES, rel=0.05)
    assert sent[FP16] == pytest.approx(MLP_BYTES / 2, rel=0.05)
    assert sent[POWERSGD] < MLP_BYTES / 10


@pytest.mark.long
def test_a_sweep_measures_parameter_servers_on_a_host_more_and_after_a_lossy_link_with_new_workers(prepared):
    study = copy.deepcopy(TINY_STUDY)
    study["hosts"]["pair"]["count"] = 3
    study["grids"]["bandwidth"] |= {
        "strategy": [SYNC, ASYNC],
        "bandwidth_mbit": 200,
        "loss_percent": [0, 0.1],
    }
    prepared.configure({"measure": {"max_steps": 2}}, study)
    said = prepared.run("results/tables/tiny2000_fig1.csv")
    found = prepared.records()
    assert [record["status"] for record in found] == ["measured"] * 8
    for record in found:
        assert len(record["step_times_ms"]) == 2
        assert len(record["provenance"]["hosts"]) == 3
        is_synchronous = record["point"]["strategy"] == SYNC
        assert record["synchronous"] is is_synchronous
        assert len(record["parameters_sha256"]) == 3
        assert record["parameters_identical"] or not is_synchronous
        if slice_ms() is None:  # this kernel has one for all threads
            assert record["slice_ms"] is None
        else:  # the same with a core to oneself and without
            assert record["slice_ms"] == SHORTEST_NS / 1e6
    assert said.count("starting 2 workers") == 2
