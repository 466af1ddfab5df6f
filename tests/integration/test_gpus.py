"""Training on GPUs by real workers, which share a GPU where there are more of them; selected where there is one.

Sums over NCCL and on GPUs are rounded otherwise than on processors: convolutions there have 10 bits of mantissa (TF32).
"""

import copy
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import yaml

from ddlbench.datasets import prepare
from ddlbench.devices.devices_file import devices_from, problems
from ddlbench.environments.environment import IMPORTS, create
from ddlbench.launch.gpus import gpus_here
from ddlbench.network.link import Link
from ddlbench.plan.catalogue import MODELS
from ddlbench.probes.collective_probe import How, probe_collectives
from ddlbench.probes.step_profile import Asked, profiled
from ddlbench.protocol.measure import StopRule
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.telemetry.series import read
from tests.support.pipeline import ENVIRONMENT, Pipeline
from tests.support.repository import REPOSITORY
from tests.support.sandboxes import run_inside
from tests.support.tiny_study import TINY_STUDY

pytestmark = pytest.mark.needs("a GPU")
BATCH = 48
POINT = {"model": "mlp", "batch_size": BATCH, "seed": 1}
RING, FP16, POWERSGD = "ring_allreduce", "ring_allreduce_fp16", "ring_allreduce_powersgd"
HIERARCHY = "hierarchical_allreduce"
SYNC, ASYNC = "parameter_server_sync", "parameter_server_async"
MEMORY_GB = 16  # of a host: CUDA's libraries take a few themselves


@pytest.fixture(scope="module")
def pythons() -> Callable[[str], str]:
    """The interpreter of a framework's environment that is built for CUDA, made where it is missing."""

    def python(framework: str) -> str:
        requirements = REPOSITORY / f"containers/{framework}/requirements-cuda.txt"
        target = REPOSITORY / f".environments/{framework}-cuda"
        return str(create(requirements, target, imports=IMPORTS[framework])["python"])

    return python


@pytest.fixture(scope="module")
def train(pythons, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Any]]:
    """What members report of ten steps of points with a framework and strategy, and the parameters at the end."""
    digits = tmp_path_factory.mktemp("digits") / "digits.npz"
    prepare("digits", {}, digits)

    def train(framework: str, strategy: str, workers: int, **how: Any) -> list[Any]:
        folder = tmp_path_factory.mktemp("parameters")
        points = [
            point | {"save_to": str(folder / f"{number}.npz")}
            for number, point in enumerate(how.pop("points", [POINT]))
        ]
        group = {
            "python": pythons(framework),
            "datasets": {"digits-28x28x1": str(digits)},
            "framework": framework,
            "strategy": strategy,
            "workers": workers,
            "memory_gb": MEMORY_GB,
            "devices": "gpu",
            "fabric": "emulated",
        }
        answers = run_inside(folder, "trainings", points=points, **{**group, **how})
        for answer, point in zip(answers, points, strict=True):
            if answer["ranks"]:
                answer["parameters"] = parameters(point["save_to"])
        return answers

    return train


def parameters(path: str) -> np.ndarray:
    with np.load(path) as arrays:
        return np.concatenate([array.ravel() for array in arrays.values()])


def hashes(answer: dict[str, Any]) -> set[str]:
    return {member["parameters_sha256"] for member in answer["ranks"] if "parameters_sha256" in member}


@pytest.mark.parametrize(
    ("framework", "strategy"),
    [("torch", RING), ("torch", SYNC), ("tensorflow", RING), ("tensorflow", SYNC)],
)
def test_two_workers_with_half_the_batch_each_learn_on_gpus_what_one_learns_with_all_of_it(
    train, framework, strategy
):
    (alone,) = train(framework, RING, 1)
    (together,) = train(framework, strategy, 2)
    np.testing.assert_allclose(together["parameters"], alone["parameters"], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("strategy", [RING, FP16, POWERSGD, SYNC])
def test_after_synchronous_training_over_nccl_all_have_the_same_parameters(train, strategy):
    (answer,) = train("torch", strategy, 2)
    assert len(hashes(answer)) == 1


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_an_asynchronous_server_trains_workers_on_gpus(train, framework):
    point = POINT | {"momentum": 0.0, "steps": 20}  # stale gradients bring momentum of their own
    (answer,) = train(framework, ASYNC, 2, points=[point])
    (tested,) = (member["test_loss"] for member in answer["ranks"] if "test_loss" in member)
    assert tested < 2.1  # ln 10 = 2.30 is knowing nothing


def test_an_all_reduce_of_two_levels_over_nccl_gives_the_parameters_of_a_ring(train):
    (ring,) = train("torch", RING, 4, workers_per_host=2)
    (levels,) = train("torch", HIERARCHY, 4, workers_per_host=2)
    assert len(hashes(levels)) == 1
    np.testing.assert_allclose(levels["parameters"], ring["parameters"], rtol=1e-2, atol=1e-3)


def test_a_profile_of_this_gpu_is_a_device_that_the_file_of_devices_may_have(pythons):
    pythons("torch")
    environment = REPOSITORY / ".environments/torch-cuda/environment.json"
    asked = Asked(model="resnet18", image_shape="32x32x3", batches=(8, 64), devices="gpu", threads=1, steps=3)
    found = profiled(asked, environment, timeout_s=600)
    assert list(problems(found, MODELS)) == []  # nor a step that takes no time
    (device,) = devices_from(found).values()
    assert device.kind == "gpu"
    assert device.name in {gpu.name for gpu in gpus_here()}
    assert [each.batch for each in device.profiles] == [8, 64]


def test_on_one_real_host_workers_may_share_a_gpu(train):
    (answer,) = train("torch", RING, 2 * len(gpus_here()), fabric="loopback")
    assert len(hashes(answer)) == 1


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_what_a_gpu_cannot_hold_does_not_fit_and_the_next_point_does(train, framework):
    too_large = POINT | {"model": "resnet18", "batch_size": 1_000_000}  # 0.57 MB an image, 570 GB together
    found = train(framework, RING, 1, points=[too_large, POINT], memory_gb=64)
    assert [answer["fits"] for answer in found] == [[False], [True]]


def test_a_gpu_learns_what_a_processor_learns(train):
    (on_gpu,) = train("torch", RING, 1)
    (on_cpu,) = train("torch", RING, 1, devices="cpu")
    np.testing.assert_allclose(on_gpu["parameters"], on_cpu["parameters"], rtol=1e-2, atol=1e-3)


def test_collectives_over_nccl_keep_to_the_link(pythons, tmp_path):
    how = How(
        transport="nccl",
        dilation=1,
        rule=StopRule(min_repetitions=3, max_repetitions=5, interval_percent=10),
        tolerances=Tolerances(  # of all but a dead link
            rate_percent=99.9,
            rtt_percent=100,
            rtt_ms=10_000,
            loss_points=99,
            others_percent=100,
            share_percent=100,
        ),
        timeouts=Timeouts(launch_s=300, prepare_s=300, step_s=300, heartbeat_s=120),
        python=pythons("torch"),
        logs=tmp_path,
    )
    found = probe_collectives(Link(1000), hosts=2, sizes_bytes=[1 << 22], how=how)
    assert found.vanished is None
    (mbit,) = (8 * size / min(s) / 1e6 for (name, size), s in found.times_s.items() if name == "all_reduce")
    assert mbit < 1000  # neither shared memory nor another way between GPUs


def test_a_study_on_gpus_says_which_and_how_they_were_shared_and_what_they_did(prepared: Pipeline, pythons):
    pythons("torch")
    shutil.copy(REPOSITORY / ".environments/torch-cuda/environment.json", prepared.root / ENVIRONMENT)
    study = copy.deepcopy(TINY_STUDY)
    study["hosts"]["pair"]["memory_gb"] = MEMORY_GB
    study["grids"]["bandwidth"] |= {"devices": "gpu", "bandwidth_mbit": 200}
    environments = yaml.safe_load((REPOSITORY / "config/config.yaml").read_text())["environments"]
    environments["torch"] = {"requirements": "containers/torch/requirements-cuda.txt"}
    prepared.configure({"environments": environments}, study)
    prepared.run("tiny2000_fig1")
    here = {gpu.uuid for gpu in gpus_here()}
    assert [record["status"] for record in prepared.records()] == ["measured"] * 2
    for record in prepared.records():
        used = record["provenance"]["gpus"]
        assert {share["uuid"] for share in used["of_workers"]} <= here
        assert used["workers_per_gpu"] == (2 if len(here) == 1 else 1)
        assert {"torch", "cuda", "cudnn", "nccl"} <= used["versions"].keys()
        samples = read([prepared.root / part["path"] for part in record["telemetry"]["files"]])
        assert all(len(each) == 1 for each in samples["gpu_percent"])  # a host's own
    caption = (prepared.root / "results/figures/tiny2000_fig1.caption.rst").read_text()
    assert ("2 workers share a GPU" in caption) is (len(here) == 1)
