"""What tests of workers in containers share: a short training, and what must be true of it in every engine."""

import copy
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import docker

from ddlbench.containers.docker import LABEL
from tests.support.pipeline import Pipeline
from tests.support.remains import eventually, processes, the
from tests.support.sandboxes import run_inside
from tests.support.tiny_study import TINY_STUDY

_NO_CAPABILITY = "0" * 16
_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def training_in(*runtimes: str) -> dict[str, Any]:
    """The tiny study with one short training, in each of the runtimes."""
    study = copy.deepcopy(TINY_STUDY)
    del study["grids"]["latency"], study["figures"]["tiny2000_fig2"]
    short = {"bandwidth_mbit": 200, "epochs": 1, "steps_per_epoch": 3}
    study["grids"]["bandwidth"] |= short | {"runtime": list(runtimes)}
    study["figures"]["tiny2000_fig1"] |= {"lines": "runtime"}
    return study


def assert_same_parameters(records: list[dict[str, Any]]) -> None:
    """Of each seed, whatever it was trained in."""
    of_seeds: dict[int, set[str]] = {}
    for record in records:
        of_seeds.setdefault(record["repetition"], set()).update(record["parameters_sha256"])
    assert [len(hashes) for hashes in of_seeds.values()] == [1] * len(of_seeds)


def confined(folder: Path, runtime: str, environment: dict[str, Any]) -> list[dict[str, str]]:
    """Two workers in containers; asserts that each has no capability, and its host's memory and network."""
    folder.mkdir()
    found: list[dict[str, str]] = run_inside(
        folder, "members_in_containers", runtime=runtime, environments={runtime: environment}, memory_gb=3
    )
    for member in found:
        assert {member[name] for name in _CAPABILITIES} == {_NO_CAPABILITY}
        assert member["NoNewPrivs"] == "1"
        assert int(member["data_bytes"]) == 3 * 2**30
        assert member["shares_network"] == "True"
    return found


def assert_nothing_left_of_a_killed_driver(pipeline: Pipeline, address: str) -> None:
    """Kill Snakemake while two workers are in containers of that engine, of a pipeline that measures many times."""
    started = pipeline.start("tiny2000_fig1")
    try:
        assert eventually(lambda: pipeline.measurements() or started.poll() is not None)
        assert started.poll() is None, pipeline.said
        assert len(_containers(address)) == 2
        os.kill(the(pipeline.root, "-m snakemake"), signal.SIGKILL)
        started.wait(60)
        assert eventually(lambda: not processes(pipeline.root)), processes(pipeline.root)
        assert eventually(lambda: not _containers(address)), _containers(address)
    finally:
        for process in processes(pipeline.root):
            os.kill(process, signal.SIGKILL)


def _containers(address: str) -> list[Any]:
    """All of ours that the engine knows."""
    with closing(docker.DockerClient(address)) as client:
        return list(client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True))
