"""Where a tiny study is measured while it is tortured: by bare processes, in containers, on a SLURM cluster."""

import copy
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import docker
import psutil

from ddlbench.containers.docker import LABEL
from tests.support.docker_engine import docker_engine
from tests.support.fixtures import JOINING
from tests.support.on_cluster import STUDY, OnCluster
from tests.support.pipeline import Pipeline, new_pipeline
from tests.support.remains import alive, pinned, processes
from tests.support.slurm_cluster import Cluster, cluster
from tests.support.tiny_study import TINY_STUDY
from tests.support.vanishing import vanishing_folder

PLACES = ("bare", "docker", "apptainer", "slurm")
DATA = "results/datasets/digits-28x28x1.npz"
OF_SLURM = ("slurmd", "slurmstepd", "slurmctld", "munged", "nsenter")  # which nobody of ours has started
FOR_LONG = {
    "min_steps": 5,
    "max_steps": 100_000,
    "step_budget_s": 0.5,
    "min_repetitions": 1000,
    "max_repetitions": 1000,
}


class Place:
    """A pipeline on this machine, whose one grid is measured for long."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def start(self) -> "subprocess.Popen[str]":
        """Start as `make run` does."""
        answer = self.pipeline.ddlbench("housekeeping")
        assert answer.returncode == 0, answer.stderr
        return self.pipeline.start("--cores", "all", self.pipeline.manifest("bandwidth"))

    def processes(self) -> dict[int, str]:
        """All of ours, with what they run."""
        ours = processes(self.pipeline.root)
        return ours | _below(ours)

    @contextmanager
    def held(self) -> Iterator[set[str]]:
        """What there is now of this study, and is to go with it."""
        with pinned(self.pipeline.root) as names:
            yield names

    def left(self, held: set[str]) -> list[str]:
        """What is left of a call that has ended: its processes, and what was held before."""
        return [*self.processes().values(), *alive(held)]

    def end(self) -> None:
        """End all that is left."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, 9)


class InDocker(Place):
    """The same with workers in the containers of an engine of our own."""

    def __init__(self, pipeline: Pipeline, address: str) -> None:
        super().__init__(pipeline)
        self.address = address

    def processes(self) -> dict[int, str]:
        first = {each.attrs["State"]["Pid"]: "a container" for each in self._containers()}
        inside = {process: words for process, words in first.items() if process}
        return super().processes() | _below(inside)

    def left(self, held: set[str]) -> list[str]:
        return super().left(held) + [f"container {each.name}" for each in self._containers()]

    def _containers(self) -> list[Any]:
        with closing(docker.DockerClient(self.address)) as client:
            found = client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
            return list(found)


class OnSlurm(Place):
    """The same by jobs of a SLURM cluster. Jobs go on without a driver: no leftovers while SLURM has them."""

    def __init__(self, on_cluster: OnCluster) -> None:
        super().__init__(on_cluster.pipeline)
        self.on_cluster = on_cluster

    def start(self) -> "subprocess.Popen[str]":
        answer = self.pipeline.ddlbench("housekeeping")
        assert answer.returncode == 0, answer.stderr
        return self.on_cluster.start(self.pipeline.manifest("two"), "--retries", "1")

    @contextmanager
    def held(self) -> Iterator[set[str]]:
        yield set()  # its processes are in the cluster's own namespaces

    def processes(self) -> dict[int, str]:
        found = super().processes()
        return {each: words for each, words in found.items() if not words.startswith(OF_SLURM)}

    def left(self, held: set[str]) -> list[str]:
        if self.on_cluster.nodes.ask("squeue", "--noheader"):
            return []
        return list(self.processes().values())

    def end(self) -> None:
        super().end()
        self.on_cluster.nodes.ask("scancel", "--partition=main")


@contextmanager
def place(name: str) -> Iterator[Place]:
    """A place by its name, with what it needs of data and images; gone, with all of it, in the end."""
    with ExitStack() as stack:
        folder = stack.enter_context(vanishing_folder("ddlbench-torture-"))
        pipeline = new_pipeline(folder / "ddlbench")
        pipeline.run(DATA)
        if name == "slurm":
            yield OnSlurm(on_slurm(pipeline, stack.enter_context(cluster())))
            return
        study = copy.deepcopy(TINY_STUDY)
        if name == "bare":
            yield _measuring(Place(pipeline), study)
            return
        address = stack.enter_context(docker_engine(JOINING))
        os.environ["DOCKER_HOST"] = address
        pipeline.run(f".images/torch/{name}.json")
        study["grids"]["bandwidth"]["runtime"] = name
        yield _measuring(InDocker(pipeline, address) if name == "docker" else Place(pipeline), study)


def on_slurm(pipeline: Pipeline, nodes: Cluster, **measure: Any) -> OnCluster:
    """A pipeline that measures on two nodes of a cluster."""
    made = OnCluster(pipeline, nodes)
    made.configure(FOR_LONG | measure, STUDY)
    return made


def _measuring(made: Place, study: dict[str, Any]) -> Place:
    made.pipeline.configure({"measure": FOR_LONG}, study)
    return made


def _below(first: dict[int, str]) -> dict[int, str]:
    """Some processes and all that they have started, with what they run."""
    found = {}
    for process in first:
        with suppress(psutil.Error):
            for each in [psutil.Process(process), *psutil.Process(process).children(recursive=True)]:
                with suppress(psutil.Error):
                    found[each.pid] = f"{each.name()} {' '.join(each.cmdline())}"
    found.pop(os.getpid(), None)
    return found
