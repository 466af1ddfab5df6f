"""Workers in Apptainer between nodes of a real SLURM cluster: they train as bare ones do, and end with their step."""

import copy
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.on_cluster import LONG, PATIENCE_S, STUDY, OnCluster, wait_for
from tests.support.pipeline import Pipeline
from tests.support.slurm_cluster import Cluster

FIGURE = "tiny2000_two"

pytestmark = pytest.mark.timeout(3600)


def study(runtimes: list[str]) -> dict[str, Any]:
    found = copy.deepcopy(STUDY)
    found["grids"] = {"two": found["grids"]["two"] | {"runtime": runtimes}}
    found["figures"] = {FIGURE: found["figures"][FIGURE] | {"lines": "runtime"}}
    return found


@pytest.fixture
def in_containers(contained: Pipeline, four_nodes: Cluster, tmp_path: Path) -> OnCluster:
    return OnCluster(contained.copy(tmp_path / "ddlbench"), four_nodes)


def test_workers_in_apptainer_train_between_nodes_as_bare_ones_do(in_containers):
    short = study(["bare", "apptainer"])
    short["grids"]["two"] |= {"epochs": 1, "steps_per_epoch": 3}
    in_containers.configure({}, short)
    assert in_containers.run(FIGURE) == 0, in_containers.pipeline.said
    of_seeds: dict[int, set[str]] = {}
    of_runtimes: dict[str, Any] = {}
    for record in in_containers.records():
        of_seeds.setdefault(record["repetition"], set()).update(record["parameters_sha256"])
        of_runtimes[record["point"]["runtime"]] = record
    assert [len(hashes) for hashes in of_seeds.values()] == [1, 1]
    bare, contained = of_runtimes["bare"], of_runtimes["apptainer"]
    assert len(contained["provenance"]["environment"]["sif_sha256"]) == 64
    for key in ("python_version", "packages"):
        assert contained["provenance"]["environment"][key] == bare["provenance"]["environment"][key]
    slurm = contained["provenance"]["slurm"]
    assert slurm == bare["provenance"]["slurm"]  # one job, its nodes and their interfaces
    for record in (bare, contained):
        assert [facts["slurm_job"] for facts in record["provenance"]["hosts"]] == [slurm["job"]] * 2
        assert set(record["telemetry"]["hosts"]) == set(slurm["nodes"])
        assert [len(times) for times in record["step_times_ms"]] == [3, 3]


def test_containers_end_with_the_step_that_they_are_in(in_containers):
    in_containers.configure(LONG, study(["apptainer"]))
    going = in_containers.start(FIGURE, "--retries", "0")
    wait_for(in_containers.pipeline.measurements, going)
    of_ours = in_containers.processes("ddlbench.cluster.node_agent")
    theirs = [child for each in of_ours for child in each.children(recursive=True)]
    inside = [each for each in theirs if _root(each) != _root(psutil.Process())]
    assert len(of_ours) == 2
    assert len(inside) >= 4  # on each node a worker and what it was forked from
    in_containers.nodes.ask("scancel", f"{in_containers.jobs()[0]}.0")
    wait_for(lambda: not any(each.is_running() for each in [*of_ours, *theirs]))
    assert going.wait(PATIENCE_S) == 1


def _root(process: psutil.Process) -> tuple[int, int]:
    """The folder that is a process's root."""
    found = Path(f"/proc/{process.pid}/root").stat()
    return found.st_dev, found.st_ino
