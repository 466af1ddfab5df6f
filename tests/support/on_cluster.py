"""What tests on a real SLURM cluster share: four nodes on one machine and its network, and a pipeline on them."""

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psutil
import pytest

from ddlbench.sweep.attempts import attempts_in
from tests.support.pipeline import Pipeline
from tests.support.repository import environment
from tests.support.slurm_cluster import Cluster, cluster, command_of, end, network
from tests.support.tiny_study import TINY_STUDY

ETHERNET = {"fabric": "ethernet"}
STUDY: dict[str, Any] = {
    **copy.deepcopy(TINY_STUDY),
    "hosts": {"nodes": {"count": 5, "vcpus": 1, "memory_gb": 2}},
    "grids": {
        name: {
            "hosts": "nodes",
            "workers": workers,
            "strategy": strategy,
            "model": "mlp",
            "dataset": "digits",
            "batch_size": 40,
            **network_of_all,
            "report": {"epoch_images": 60000, "epochs": 10},
        }
        for name, workers, strategy, network_of_all in (
            ("few", [2, 4], "ring_allreduce", ETHERNET),
            ("two", 2, "ring_allreduce", ETHERNET),
            ("five", 5, "ring_allreduce", ETHERNET),
            ("server", 2, "parameter_server_sync", ETHERNET),
            ("emulated", 2, "ring_allreduce", {"link": "fast-ethernet"}),
        )
    },
    "figures": {
        f"tiny2000_{name}": {
            "grids": [name],
            "title": "Step time by nodes",
            "x": "workers",
            "y": "step_time_ms",
            "category": "Nodes",
            "caption": "The paper sees nothing.",
        }
        for name in ("few", "two", "five", "server", "emulated")
    },
}
STUDY["grids"]["gpus"] = STUDY["grids"]["two"] | {"devices": "gpu"}
STUDY["figures"]["tiny2000_gpus"] = STUDY["figures"]["tiny2000_two"] | {"grids": ["gpus"]}
# A third of a second for each repetition, however fast the machine is: as many steps as that takes.
LONG = {"min_steps": 5, "max_steps": 100_000, "step_budget_s": 0.33} | dict.fromkeys(
    ("min_repetitions", "max_repetitions"), 400
)
PATIENCE_S = 600.0


class OnCluster:
    """A pipeline whose measurements are jobs of the cluster."""

    def __init__(self, pipeline: Pipeline, nodes: Cluster) -> None:
        self.pipeline = pipeline
        self.nodes = nodes

    def configure(
        self, measure: dict[str, Any] | None = None, study: dict[str, Any] = STUDY, **settings: Any
    ) -> None:
        named = {"ethernet": network(), "infiniband": None}
        settings |= {"default_figures": ["tiny2000_two"], "interfaces": named, "measure": measure or {}}
        self.pipeline.configure(settings, study)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        command = self.nodes.command(
            *(sys.executable, "-m", "snakemake", *arguments, "--profile", "profiles/slurm"),
            folder=self.pipeline.root,
        )
        with (self.pipeline.root / "said.txt").open("a") as said:  # several drivers may be going
            return subprocess.Popen(
                command, env=environment(self.pipeline.root), stdout=said, stderr=said, text=True
            )

    def run(self, *arguments: str) -> int:
        return self.start(*arguments).wait(2 * PATIENCE_S)

    def kill(self, going: "subprocess.Popen[str]") -> None:
        """Kill Snakemake, too, not only what has entered the cluster's namespaces with it."""
        if going.poll() is None:
            end(psutil.Process(going.pid).children(recursive=True))
        going.wait(PATIENCE_S)

    def attempts(self) -> list[dict[str, Any]]:
        """Those at the only run, if there were any."""
        folders = [path.parent for path in self.pipeline.root.glob("logs/runs/*/*/attempts.json")]
        return [each for folder in folders for each in attempts_in(folder)]

    def told(self) -> str:
        """What the only run's last attempt has said in the end."""
        (log,) = self.pipeline.root.glob("logs/runs/*/*/sweep.log")
        return log.read_text()

    def processes(self, module: str) -> list[psutil.Process]:
        """Those of the cluster that run a module of ours."""
        return [each for each in self.nodes.processes() if command_of(each)[1:3] == ["-m", module]]

    def jobs(self) -> list[str]:
        """The jobs that measurements were made in, in order."""
        return list(dict.fromkeys(each["provenance"]["slurm"]["job"] for each in self.records()))

    def records(self) -> list[dict[str, Any]]:
        return sorted(self.pipeline.records(), key=lambda record: record["started"])


def wait_for(what: Callable[[], Any], going: "subprocess.Popen[str] | None" = None) -> Any:
    deadline = monotonic() + PATIENCE_S
    while not (found := what()):
        assert monotonic() < deadline, "it has not happened"
        assert going is None or going.poll() is None, "it has ended before"
        sleep(0.1)
    return found


@pytest.fixture(scope="module")
def four_nodes() -> Iterator[Cluster]:
    with cluster() as nodes:
        yield nodes


@pytest.fixture
def on_cluster(with_data: Pipeline, four_nodes: Cluster, tmp_path: Path) -> Iterator[OnCluster]:
    made = OnCluster(with_data.copy(tmp_path / "ddlbench"), four_nodes)
    made.configure()
    yield made
    four_nodes.ask("scancel", "--partition=main")  # what a test that failed may have left
