"""Training by real TensorFlow workers: N in a ring compute what one computes, and what PyTorch computes."""

import copy
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.repository import REPOSITORY
from tests.support.sandboxes import run_inside
from tests.support.small_steps import ways
from tests.support.tiny_study import TINY_STUDY

POINTS = {
    "even": {"model": "mlp", "batch_size": 64, "seed": 1},
    "again": {"model": "mlp", "batch_size": 64, "seed": 1},
    "uneven": {"model": "mlp", "batch_size": 33, "seed": 1},  # 16 images and 17
    "convolutions": {"model": "conv2", "batch_size": 32, "seed": 1},
}
NORMALISED = {"model": "resnet18", "batch_size": 8, "seed": 1, "steps": 3}  # has BatchNorm
MLP_BYTES = 4 * 109_386
LONG_NAME = {"model": "keras_sequential", "batch_size": 32, "seed": 1, "steps": 3}  # with an underscore
OTHERS = {"normalised": NORMALISED, "long_name": LONG_NAME}
Trained = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def train(
    tmp_path_factory: pytest.TempPathFactory,
    digits: Path,
    torch_environment: dict[str, Any],
    tensorflow_environment: dict[str, Any],
) -> Callable[..., Trained]:
    """What a framework's group reports of ten steps at each point, and the parameters that it has then."""
    pythons = {"torch": torch_environment["python"], "tensorflow": tensorflow_environment["python"]}

    def trained(framework: str, names: Iterable[str] = POINTS, **group: Any) -> Trained:
        folder = tmp_path_factory.mktemp("group")
        points = [(POINTS | OTHERS)[name] | {"save_to": str(folder / f"{name}.npz")} for name in names]
        common = {"python": pythons[framework], "datasets": {"digits-28x28x1": str(digits)}}
        answers = run_inside(folder, "trainings", framework=framework, points=points, **group, **common)
        return {
            name: answer | {"parameters": parameters_in(point["save_to"])}
            for name, answer, point in zip(names, answers, points, strict=True)
        }

    return trained


@pytest.fixture
def inside(
    tmp_path: Path, digits: Path, tensorflow_environment: dict[str, Any]
) -> Callable[..., dict[str, list[float]]]:
    """A function of `inside`, with TensorFlow."""
    python, datasets = tensorflow_environment["python"], {"digits-28x28x1": str(digits)}
    given = {"python": python, "datasets": datasets, "framework": "tensorflow"}
    return lambda function, **more: run_inside(tmp_path, function, **given, **more)


@pytest.fixture(scope="module")
def alone(train) -> Trained:
    """What a worker by itself reports."""
    return train("tensorflow", workers=1)


@pytest.fixture(scope="module")
def together(train) -> Trained:
    """What two workers report."""
    return train("tensorflow", workers=2)


def parameters_in(file: str) -> np.ndarray:
    with np.load(file) as arrays:
        return np.concatenate([arrays[name].ravel() for name in arrays.files])


def hashes(answer: dict[str, Any]) -> list[str]:
    return [member["parameters_sha256"] for member in answer["ranks"]]


@pytest.mark.parametrize("point", POINTS)
def test_all_workers_of_the_ring_end_with_the_same_parameters(together, point):
    one, two = hashes(together[point])
    assert one == two


@pytest.mark.parametrize("workers", ["alone", "together"])
def test_a_point_that_comes_again_begins_anew(alone, together, workers):
    trained = alone if workers == "alone" else together
    assert hashes(trained["even"]) == hashes(trained["again"])


@pytest.mark.parametrize("point", POINTS)
def test_two_workers_with_half_the_batch_each_learn_what_one_learns_with_all_of_it(alone, together, point):
    np.testing.assert_allclose(together[point]["parameters"], alone[point]["parameters"], atol=1e-5)


def test_tensorflow_learns_what_pytorch_learns(train, alone):
    torch = train("torch", ["convolutions"], workers=1)["convolutions"]
    tensorflow = alone["convolutions"]
    np.testing.assert_allclose(tensorflow["parameters"], torch["parameters"], atol=1e-4)
    losses = [each["ranks"][0]["test_loss"] for each in (tensorflow, torch)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)  # the issue asks for 1e-3


def test_the_mean_of_the_workers_losses_is_the_loss_of_the_whole_batch(alone, together):
    (one,), two = alone["even"]["ranks"], together["even"]["ranks"]
    assert sum(worker["train_loss"] for worker in two) / 2 == pytest.approx(one["train_loss"], rel=1e-5)
    assert two[0]["train_loss"] != two[1]["train_loss"]  # each has images of its own


def test_every_step_is_timed_on_every_worker(together):
    for worker in together["even"]["ranks"]:
        (step_times_ms,) = worker["step_times_ms"]
        assert len(step_times_ms) == 10
        assert all(time > 0 for time in step_times_ms)


def test_a_ring_moves_two_n_minus_one_over_n_of_the_model(inside):
    found = inside("bytes_of_a_step", strategy="ring_allreduce", workers=2, point=POINTS["even"])
    for sent in found["sent"]:
        assert sent == pytest.approx(MLP_BYTES, rel=0.05)  # the issue asks for 5 %


@pytest.fixture(scope="module", params=[2, 3])
def served(train, request) -> tuple[int, Trained]:
    """How many workers a synchronous server has, and what they report."""
    return request.param, train("tensorflow", workers=request.param, strategy="parameter_server_sync")


@pytest.mark.parametrize("point", POINTS)
def test_workers_of_a_synchronous_server_learn_what_one_worker_learns_with_all_of_the_batch(
    served, alone, point
):
    _, trained = served
    np.testing.assert_allclose(trained[point]["parameters"], alone[point]["parameters"], atol=1e-5)


def test_a_synchronous_server_times_nothing_and_each_of_its_workers_its_own_steps(served, alone):
    workers, trained = served
    for point, answer in trained.items():
        *members, server = answer["ranks"]
        assert [len(member["step_times_ms"][0]) for member in members] == [10] * workers
        assert server["step_times_ms"] == []
        assert server["test_loss"] == pytest.approx(alone[point]["ranks"][0]["test_loss"], abs=1e-4)


@pytest.mark.parametrize("point", ["normalised", "long_name"])
def test_one_worker_of_a_synchronous_server_learns_and_normalises_as_one_by_itself(train, point):
    served = train("tensorflow", [point], workers=1, strategy="parameter_server_sync")[point]
    by_itself = train("tensorflow", [point], workers=1)[point]
    losses = [answer["ranks"][-1]["test_loss"] for answer in (served, by_itself)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)


def test_each_worker_of_a_synchronous_server_pulls_and_pushes_the_model_once_a_step(inside):
    found = inside(
        "bytes_of_a_step", strategy="parameter_server_sync", workers=2, servers=1, point=POINTS["even"]
    )
    for way in ("sent", "received"):
        *workers, server = found[way]
        assert server == pytest.approx(2 * MLP_BYTES, rel=0.05)
        assert workers == [pytest.approx(MLP_BYTES, rel=0.05)] * 2


def test_one_worker_of_a_parameter_server_learns_what_a_worker_by_itself_learns(train, alone):
    served = train("tensorflow", ["even"], workers=1, strategy="parameter_server_async")["even"]
    np.testing.assert_allclose(served["parameters"], alone["even"]["parameters"], atol=1e-6)


def test_what_fits_into_memory_is_not_refused(inside):
    point = {"model": "keras_sequential", "batch_size": 4000, "seed": 1, "steps": 1}
    (answer,) = inside("trainings", workers=1, memory_gb=2.2, points=[point])  # it takes 1.7
    assert answer["fits"] == [True]


def test_an_asynchronous_server_has_each_worker_make_all_of_its_steps(inside, tmp_path):
    """A fast worker makes more of them than are asked for; so batches are half of all images, whose gradients are
    nearly the same, and lead the same way, and at least as far as all workers' steps do."""
    point = {"model": "mlp", "batch_size": 1437, "seed": 1}
    train = partial(inside, "trainings", strategy="parameter_server_async")
    together, each, (*members, chief) = ways(train, tmp_path, point, workers=2)
    assert [member["step_times_ms"] for member in members] == [[], [], []]
    assert [len(times) for times in chief["step_times_ms"]] == [10, 10]
    assert all(time > 0 for times in chief["step_times_ms"] for time in times)
    far, way = np.linalg.norm(each), together / np.linalg.norm(together)
    assert each @ way > 0.95 * far
    assert far > 0.9 * np.linalg.norm(together)


@pytest.mark.parametrize("strategy", ["ring_allreduce", "parameter_server_sync", "parameter_server_async"])
def test_a_study_with_tensorflow_is_measured_and_what_does_not_fit_is_told(
    prepared, tensorflow_environment, strategy
):
    shutil.copytree(
        REPOSITORY / ".environments/tensorflow",
        prepared.root / ".environments/tensorflow",
        ignore=lambda folder, names: set(names) - {"environment.json"},
    )
    study = copy.deepcopy(TINY_STUDY)
    study["hosts"]["pair"] |= {"memory_gb": 1.5, "count": 2}
    study["grids"]["bandwidth"] |= {
        "framework": "tensorflow",
        "strategy": strategy,
        "bandwidth_mbit": 200,
        "model": "conv2",
        "batch_size": [32, 100_000],
    }
    prepared.configure({"measure": {"relaunch": True}}, study)
    prepared.run(prepared.manifest("bandwidth"))
    told = {record["point"]["batch_size"]: record["status"] for record in prepared.records()}
    assert told == {32: "measured", 100_000: "does_not_fit"}
    for record in prepared.records():
        if record["status"] == "measured":
            assert len(record["step_times_ms"]) == 2
            assert record["parameter_count"] == 61_706
