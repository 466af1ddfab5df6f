"""NVML as this package reads it, on a made-up library: there is no GPU where these tests run."""

import math
import os
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from ddlbench.cli.main import main
from ddlbench.launch.gpus import GpuLoad, Gpus, gpus_here, usable
from ddlbench.plan.plan import NO_GPU
from ddlbench.plan.request import planned_gpus
from ddlbench.protocol.agent_messages import SamplerJob, Sampling, WatchedHost
from ddlbench.sweep.host_sampling import watched_hosts
from ddlbench.system.gpu_shares import Gpu
from ddlbench.telemetry.sampler import Sampler
from tests.support.repository import REPOSITORY


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 2)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: f"GPU-{handle}")
    monkeypatch.setattr(
        pynvml, "nvmlDeviceGetName", lambda handle: b"NVIDIA A100"
    )  # as its older versions did
    monkeypatch.setattr(
        pynvml,
        "nvmlDeviceGetPciInfo",
        lambda handle: SimpleNamespace(busId=f"00000000:{handle}B:00.0".encode()),
    )
    monkeypatch.setattr(
        pynvml, "nvmlDeviceGetUtilizationRates", lambda handle: SimpleNamespace(gpu=50 + handle, memory=9)
    )
    monkeypatch.setattr(
        pynvml,
        "nvmlDeviceGetMemoryInfo",
        lambda handle: SimpleNamespace(used=2**30 * (handle + 1), total=2**34),
    )


@pytest.fixture
def no_driver(monkeypatch):
    def fail():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)


def test_every_gpu_answers_in_nvmls_order(two_gpus):
    assert list(Gpus().read().items()) == [
        ("GPU-0", GpuLoad(50.0, 2**30)),
        ("GPU-1", GpuLoad(51.0, 2**31)),
    ]


def test_a_gpu_that_does_not_say_how_busy_it_is_is_not_said_to_be_idle(two_gpus, monkeypatch):
    def fail(handle):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", fail)
    assert all(math.isnan(load.percent) for load in Gpus().read().values())


def test_a_gpu_that_does_not_say_where_it_is_has_no_address(two_gpus, monkeypatch):
    def fail(handle):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetPciInfo", fail)
    assert [gpu.pci_address for gpu in Gpus().all()] == ["", ""]


def test_those_may_be_used_that_the_caller_does_not_hide(two_gpus):
    zero, one = (
        Gpu(index, f"GPU-{index}", "NVIDIA A100", 2**34, f"00000000:{index}B:00.0") for index in range(2)
    )
    assert usable({}) == (zero, one)
    assert usable({"CUDA_VISIBLE_DEVICES": "1"}) == (one,)
    assert usable({"CUDA_VISIBLE_DEVICES": ""}) == ()


def test_the_jobs_of_an_invocation_count_the_gpus_that_it_has_counted(two_gpus, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("DDLBENCH_GPUS", "5")  # of another invocation
    gpus_here.cache_clear()
    assert planned_gpus(len(gpus_here())) == 2
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 0)
    gpus_here.cache_clear()
    assert planned_gpus(None) == 2
    gpus_here.cache_clear()


def test_check_counts_the_gpus_of_this_machine(two_gpus, monkeypatch, capsys):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.chdir(REPOSITORY)
    gpus_here.cache_clear()
    assert main(["check", "config/examples/gpu_mnist.yaml"]) == 0
    gpus_here.cache_clear()
    assert NO_GPU not in capsys.readouterr().out


def test_a_machine_without_a_driver_has_none(no_driver):
    assert Gpus().read() == {}
    assert usable({}) == ()


@pytest.mark.parametrize(
    ("gpu", "loads"),
    [
        ("GPU-1", [GpuLoad(51.0, 2**31)]),
        ("", []),
        (None, [GpuLoad(50.0, 2**30), GpuLoad(51.0, 2**31)]),
    ],
)
def test_a_host_is_watched_on_its_own_gpu_or_on_all_where_that_is_not_known(two_gpus, tmp_path, gpu, loads):
    host = WatchedHost("h1", "worker", None, [os.getpid()], gpu=gpu)
    sampling = Sampling("a-run", "2026-01-01", 10, 1, 1, on_gpus=True, folder=str(tmp_path), log="")
    (sample,) = Sampler(SamplerJob([host], sampling, 0.0)).sample()
    assert sample.gpus == loads


def test_a_server_beside_workers_with_gpus_is_watched_on_none_of_theirs():
    hosts = SimpleNamespace(hosts=[SimpleNamespace(name="h1"), SimpleNamespace(name="h2")], namespaces=[3, 4])
    members = [SimpleNamespace(host=0, role="worker"), SimpleNamespace(host=1, role="server")]
    group: Any = SimpleNamespace(
        members=members,
        group=SimpleNamespace(pids=lambda: [10, 11]),
        hosts=hosts,
        gpus=[SimpleNamespace(uuid="GPU-1")],
    )
    assert [each.gpu for each in watched_hosts(group)] == ["GPU-1", ""]
    group.gpus = []
    assert [each.gpu for each in watched_hosts(group)] == [None, None]
