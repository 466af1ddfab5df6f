"""wang2019_fig5 on a real cluster, in one file: what SLURM and srun are asked for, as recorded."""

import pytest
import yaml

from ddlbench.cluster.srun import srun_argv
from ddlbench.launch.roles import members
from ddlbench.plan import load, requested
from tests.support.small_study import REPOSITORY

EXAMPLE = "config/examples/wang2019_cluster.yaml"
SLURM_HAS_MB = (
    760_000  # at most, of a node with 768 GB: RealMemory is what the kernel reports, and often less
)
RECORDED = {  # GPUs -> nodes, GPUs of each
    1: (1, 1),
    2: (1, 2),
    4: (1, 4),
    8: (1, 8),
    16: (2, 8),
    32: (4, 8),
    64: (8, 8),
}


def merged(base: dict, more: dict) -> dict:
    both = {
        key: merged(base[key], more[key]) for key in base.keys() & more.keys() if isinstance(more[key], dict)
    }
    return base | more | both


@pytest.fixture(scope="module")
def plan():
    default, example = (
        yaml.safe_load((REPOSITORY / file).read_text()) for file in ("config/config.yaml", EXAMPLE)
    )
    return load(merged(default, example), REPOSITORY, scheduler="slurm")


def test_each_number_of_gpus_asks_for_nodes_of_eight_over_both_networks(plan):
    asked = {}
    for run in plan.runs_of("wang2019_fig5"):
        of_run = requested(plan, run)
        asked[run.points[0].fabric, run.workers] = of_run["nodes"], int(of_run["gres"].removeprefix("gpu:"))
        assert (of_run["cpus_per_task"], of_run["tasks"]) == (32, of_run["nodes"])
        assert of_run["mem_mb"] == 640 * 1024 + 1024 < SLURM_HAS_MB
    assert asked == {
        (fabric, workers): shape
        for fabric in ("infiniband", "ethernet")
        for workers, shape in RECORDED.items()
    }


def test_one_process_of_ours_is_started_on_each_node_with_its_eight_gpus():
    argv = srun_argv(["python"], job="17", nodes=8, cpus=32, gpus=8)
    assert argv == [
        *("srun", "--jobid=17", "--nodes=8", "--ntasks=8", "--ntasks-per-node=1", "--distribution=block"),
        *("--cpus-per-task=32", "--gres=gpu:8", "--mem=0", "--cpu-bind=none", "--overlap", "--mpi=none"),
        *("--input=none", "--kill-on-bad-exit=1", "--export=ALL", "python"),
    ]


def test_64_workers_are_on_eight_nodes_in_order():
    found = members("torch", "ring_allreduce", 64, 8, workers_per_host=8)
    assert [member.host for member in found] == [rank // 8 for rank in range(64)]
