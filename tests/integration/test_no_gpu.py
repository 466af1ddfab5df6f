"""What is told where workers are to compute on GPUs and cannot: CPU builds of frameworks are exactly that case."""

import copy
import csv
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.launch.gpus import gpus_here
from ddlbench.network.link import Link
from ddlbench.probes.collective_probe import How, probe_collectives
from ddlbench.protocol.measure import StopRule
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.system.package import package_root
from tests.support.pipeline import Pipeline
from tests.support.sandboxes import run_inside
from tests.support.tiny_study import TINY_STUDY

# Workers are forked from a process that has imported these; CUDA does not survive that, once it was asked for anything.
ASKED = """
import json, sys
found = []
def look(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.endswith("torch/cuda/__init__.py") and code.co_name in (
        "is_available", "device_count", "current_device", "init", "_lazy_init", "get_device_properties"
    ):
        found.append(f"{code.co_name}, by {frame.f_back.f_code.co_filename}:{frame.f_back.f_lineno}")
sys.setprofile(look)
import ddlbench.workers.torch.ring_allreduce, ddlbench.workers.torch.parameter_server
import ddlbench.workers.torch.collectives
sys.setprofile(None)
print(json.dumps(found))
"""


FRAMEWORKS = (
    ("PyTorch", "torch", "ring_allreduce"),
    ("PyTorch", "torch", "parameter_server_sync"),
    ("TensorFlow", "tensorflow", "ring_allreduce"),
    ("TensorFlow", "tensorflow", "parameter_server_sync"),
    ("TensorFlow", "tensorflow", "parameter_server_async"),
    ("MXNet", "mxnet", "parameter_server_sync"),
)


@pytest.mark.parametrize(
    ("name", "framework", "strategy"),
    [pytest.param(*each, marks=pytest.mark.needs(each[0])) for each in FRAMEWORKS],
)
def test_a_framework_without_cuda_says_which_requirements_have_it(
    request, tmp_path, name, framework, strategy
):
    python = request.getfixturevalue(f"{framework}_environment")["python"]
    told = run_inside(tmp_path, "refusal", python=python, framework=framework, strategy=strategy)
    first, *rest = told.splitlines()
    assert " on host h" in first
    assert f": devices: gpu needs {name} built for CUDA, and this is " in first
    requirements = f"{{requirements: containers/{framework}/requirements-cuda.txt}}"
    assert rest == [f"  environments: {{{framework}: {requirements}}}"]


def test_what_workers_are_forked_from_asks_cuda_for_nothing(torch_environment: dict[str, Any]):
    told = subprocess.run(
        [torch_environment["python"], "-c", ASKED],
        env={"PYTHONPATH": package_root()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(told.stdout) == []


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without GPUs, or one whose GPUs the caller hides."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    gpus_here.cache_clear()
    yield
    gpus_here.cache_clear()


def test_a_probe_by_nccl_says_that_there_is_no_gpu_before_anything_starts(no_gpu: None, tmp_path: Path):
    how = How(
        transport="nccl",
        dilation=1,
        rule=StopRule(min_repetitions=1, max_repetitions=1, interval_percent=1),
        tolerances=Tolerances(
            rate_percent=1, rtt_percent=1, rtt_ms=1, loss_points=1, others_percent=100, share_percent=100
        ),
        timeouts=Timeouts(launch_s=1, prepare_s=1, step_s=1, heartbeat_s=1),
        python="",
        logs=tmp_path,
    )
    with pytest.raises(
        DdlbenchError, match=r"^nccl: this machine has no GPU \(devices: gpu\); gloo does without$"
    ):
        probe_collectives(Link(1000), hosts=2, sizes_bytes=[4], how=how)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_without_a_gpu_its_points_are_gaps_with_the_reason_and_the_others_are_drawn(
    prepared: Pipeline, no_gpu: None
):
    study = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"] |= {"devices": ["cpu", "gpu"], "bandwidth_mbit": 200}
    prepared.configure({}, study)
    prepared.run("tiny2000_fig1")
    with (prepared.root / "results/figures/tiny2000_fig1.csv").open() as file:
        found = {row["devices"]: (row["status"], row["reason"]) for row in csv.DictReader(file)}
    assert found == {
        "cpu": ("measured", ""),
        "gpu": ("not_available", "this machine has no GPU (devices: gpu)"),
    }
    caption = (prepared.root / "results/figures/tiny2000_fig1.caption.rst").read_text()
    assert "this machine has no GPU (devices: gpu)" in caption
