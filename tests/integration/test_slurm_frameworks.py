"""Frameworks between nodes of a real SLURM cluster: each finds the others there, and all ranks agree."""

import copy
import shutil
from typing import Any

import pytest

from tests.support.on_cluster import STUDY, OnCluster
from tests.support.repository import REPOSITORY

TRAINED = {  # a grid: framework and strategy; a parameter server is on the second worker's node
    "tensorflow_ring": ("tensorflow", "ring_allreduce"),
    "tensorflow_server": ("tensorflow", "parameter_server_sync"),
    "horovod": ("horovod_torch", "ring_allreduce"),
    "mxnet": ("mxnet", "parameter_server_sync"),
}

pytestmark = pytest.mark.timeout(1800)


def study() -> dict[str, Any]:
    found = copy.deepcopy(STUDY)
    point, figure = found["grids"]["two"], found["figures"]["tiny2000_two"]
    found["hosts"]["nodes"]["count"] = 2
    found["grids"] = {
        name: {**point, "framework": framework, "strategy": strategy, "epochs": 1, "steps_per_epoch": 3}
        for name, (framework, strategy) in TRAINED.items()
    }
    found["figures"] = {"tiny2000_two": {**figure, "grids": list(TRAINED), "lines": "framework"}}
    return found


def test_two_workers_a_node_train_on_two_nodes_each_with_processors_of_its_own(on_cluster: OnCluster):
    shared = copy.deepcopy(STUDY)
    point, figure = shared["grids"]["two"], shared["figures"]["tiny2000_two"]
    shared["hosts"]["nodes"] = {"count": 2, "vcpus": 2, "memory_gb": 4}
    shared["grids"] = {
        strategy: {**point, "workers": 4, "workers_per_host": 2, "strategy": strategy}
        for strategy in ("ring_allreduce", "hierarchical_allreduce")
    }
    shared["figures"] = {"tiny2000_two": {**figure, "grids": list(shared["grids"]), "lines": "strategy"}}
    on_cluster.configure({"min_repetitions": 1, "max_repetitions": 1}, shared)
    assert on_cluster.run("tiny2000_two") == 0, on_cluster.pipeline.said
    records = on_cluster.records()
    assert {record["point"]["strategy"] for record in records} == set(shared["grids"])
    for record in records:
        assert record["parameters_identical"]
        assert len(record["step_times_ms"]) == 4
        assert len(record["provenance"]["slurm"]["nodes"]) == 2


def test_every_framework_trains_the_same_model_between_nodes(
    on_cluster: OnCluster, tensorflow_environment, horovod_environment, mxnet_environment
):
    for described in (tensorflow_environment, horovod_environment, mxnet_environment):
        stamp = on_cluster.pipeline.root / f".environments/{described['name']}/environment.json"
        stamp.parent.mkdir()
        shutil.copy(REPOSITORY / stamp.relative_to(on_cluster.pipeline.root), stamp)
    on_cluster.configure({"trainings": 1}, study())
    assert on_cluster.run("tiny2000_two") == 0, on_cluster.pipeline.said
    records = on_cluster.records()
    trained = {(record["point"]["framework"], record["point"]["strategy"]) for record in records}
    assert trained == set(TRAINED.values())
    for record in records:
        assert record["parameters_identical"]  # on both nodes
        assert record["provenance"]["slurm"]["nodes"] in (["node1", "node2"], ["node3", "node4"])
        assert len(record["step_times_ms"]) == 2
    losses = [record["metrics"]["test_loss"] for record in records]
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-5)
