"""Workers bare, in Docker and in Apptainer: on the same hosts, with the same results, and nothing left of them."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest
import yaml

from ddlbench.containers import engines
from ddlbench.errors import DdlbenchError
from tests.support.docker_engine import docker_engine
from tests.support.in_containers import (
    assert_nothing_left_of_a_killed_driver,
    assert_same_parameters,
    confined,
    training_in,
)
from tests.support.pipeline import Pipeline
from tests.support.repository import REPOSITORY
from tests.support.sandboxes import environment_of

PROBES = yaml.safe_load((REPOSITORY / "config/config.yaml").read_text())["probes"]
RUNTIMES = ["bare", "docker", "apptainer"]
IMAGES = Path(".images/torch")
OF_THE_KERNEL = ("/proc", "/dev", "/sys")


def configure(
    pipeline: Pipeline, settings: Mapping[str, Any] = {}, runtimes: Sequence[str] = RUNTIMES
) -> None:
    """One figure of a short training in runtimes."""
    pipeline.configure({"default_figures": ["tiny2000_fig1"], **settings}, training_in(*runtimes))


@pytest.fixture
def pipeline(
    contained: Pipeline, engine_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Pipeline:
    """A copy of it for a test; what uses Docker uses the tests' own engine."""
    monkeypatch.setenv("DOCKER_HOST", engine_address)
    copied = contained.copy(tmp_path / "ddlbench")
    configure(copied)
    return copied


def environments(pipeline: Pipeline) -> dict[str, Any]:
    """The descriptions of PyTorch in containers."""
    found = {name: json.loads((pipeline.root / IMAGES / f"{name}.json").read_text()) for name in RUNTIMES[1:]}
    found["apptainer"] |= {"sif": str(pipeline.root / found["apptainer"]["sif"])}
    return {name: each | {"engine": engines.describe(name)} for name, each in found.items()}


def test_a_training_gives_the_same_parameters_in_every_runtime(pipeline):
    configure(pipeline, {"measure": {"relaunch": True}})
    pipeline.run("tiny2000_fig1")
    records = pipeline.records()
    assert len({record["launch"] for record in records}) == len(records)  # each repetition has new workers
    assert sorted({record["point"]["runtime"] for record in records}) == sorted(RUNTIMES)
    assert_same_parameters(records)
    for record in records:
        assert record["telemetry"]["hosts"].keys() == {"h1", "h2"}
        assert record["telemetry"]["hosts"]["h1"]["sent_bytes_per_step"] > 100_000  # gradients over the link
        assert record["link"]["measured"]["rate_mbit"] > 0
        assert record["metrics"]["startup_s"] > 0
        environment = record["provenance"]["environment"]
        assert environment.keys() >= {"sha256", "python_version", "packages"}
    software = {
        json.dumps(record["provenance"]["environment"]["packages"], sort_keys=True) for record in records
    }
    assert len(software) == 1
    logs = list((pipeline.root / "logs/runs/tiny2000").glob("*/rank0.log"))
    assert {(log.stat().st_uid, log.stat().st_gid) for log in logs} == {(os.getuid(), os.getgid())}


@pytest.mark.parametrize("runtime", RUNTIMES[1:])
def test_workers_in_containers_have_no_capability_and_their_host_s_memory_and_network(
    pipeline, tmp_path, runtime
):
    for member in confined(tmp_path / "group", runtime, environments(pipeline)[runtime]):
        own = [
            folder
            for folder in member["writable"].split()
            if not folder.startswith(OF_THE_KERNEL) and folder not in ("/tmp", "/var/tmp", "/")
        ]
        assert [folder for folder in own if not folder.startswith("/etc/")] == [str(tmp_path / "group")]


def test_nothing_is_left_of_containers_when_the_driver_is_killed(pipeline, engine_address):
    repetitions = {"trainings": 50}
    configure(pipeline, {"measure": repetitions}, ["docker"])
    assert_nothing_left_of_a_killed_driver(pipeline, engine_address)
    workers = subprocess.run(["pgrep", "-f", f"ddlbench-rank.*{pipeline.root}"], capture_output=True)
    assert not workers.stdout


def test_without_docker_the_other_runtimes_are_measured_and_the_gap_is_named(pipeline, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    answer = pipeline.attempt("tiny2000_fig1")
    assert answer.returncode == 1
    assert "/nowhere/docker.sock" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert {record["point"]["runtime"] for record in pipeline.records()} == {"bare", "apptainer"}
    caption = (pipeline.root / "results/figures/tiny2000_fig1.caption.rst").read_text()
    assert "no docker: " in caption


@pytest.mark.needs("root", "Docker")
def test_a_daemon_that_does_not_know_our_runtime_is_told_what_to_add(monkeypatch):
    with docker_engine() as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(DdlbenchError, match=r"daemon\.json.*containers/oci_runtime\.py"):
            engines.describe("docker")


def test_a_damaged_sif_is_refused_before_anything_starts(pipeline, tmp_path):
    damaged = tmp_path / "damaged.sif"
    described = environments(pipeline)["apptainer"]
    content = bytearray(Path(described["sif"]).read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(DdlbenchError, match="damaged"):
        engines.check({"apptainer": environment_of(described | {"sif": str(damaged)})})


def test_an_image_that_vanished_is_named(pipeline):
    described = environments(pipeline)["docker"] | {"image_id": "sha256:" + "0" * 64}
    with pytest.raises(DdlbenchError, match=described["image"]):
        engines.check({"docker": environment_of(described)})


def test_messages_are_timed_inside_every_runtime_and_a_missing_bridge_is_named(pipeline):
    pipeline.configure(
        {"probes": PROBES | {"measure": {"min_repetitions": 2, "max_repetitions": 2, "interval_percent": 5}}}
    )
    pipeline.run("results/probes/runtimes.csv")
    table = pandas.read_csv(pipeline.root / "results/probes/runtimes.csv")
    measured = table[table["status"] == "measured"]
    assert {*zip(measured["runtime"], measured["network"], strict=True)} == {
        (runtime, network) for runtime in RUNTIMES for network in ("host", "joined")
    }
    assert (measured["one_way_us"] > 0).all()
    (missing,) = table[table["status"] != "measured"].to_dict("records")
    assert (missing["runtime"], missing["network"]) == ("docker", "bridge")
    assert "--bridge=none" in missing["reason"]
