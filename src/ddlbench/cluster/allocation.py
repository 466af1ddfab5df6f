"""The nodes of an allocation, as the driver has them: one process of ours on each, all started by one srun."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from ddlbench.cluster.agent_client import Message, Node, NodeLost, NodesTelemetry, RemoteProcess, ask_all
from ddlbench.cluster.node_agent import DOOR
from ddlbench.cluster.slurm import allocation, how_it_ended, own_address
from ddlbench.cluster.srun import srun_argv, variables_of_a_step
from ddlbench.errors import DdlbenchError
from ddlbench.files import tail
from ddlbench.launch.control_socket import Door
from ddlbench.network.hosts import Host
from ddlbench.system.clock import Clock
from ddlbench.system.processes import die_with_parent
from ddlbench.telemetry.telemetry import Watched

_POLL_S = 0.2
_STOP_S = 10.0


class Nodes:
    """As many nodes of the allocation that we are in as the job has hosts, from one srun to its end.

    job: of a session; its file is `job.json` in its folder of logs. Raises DdlbenchError where there are too few nodes
    or one cannot carry the job's fabric. It is a `Starter` of members, too: each on the node that its order names.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        planned = [Host(**{**host, "cores": tuple(host["cores"])}) for host in job["placement"]["hosts"]]
        self.allocation = allocation()
        if len(self.allocation.nodes) < len(planned):
            raise DdlbenchError(
                f"{job['run']} needs {len(planned)} nodes, and SLURM's job {self.allocation.job} has "
                f"{len(self.allocation.nodes)}: {', '.join(self.allocation.nodes)}"
            )
        logs = Path(job["logs"])
        self._log = logs / "srun.log"
        self._nodes: list[Node] = []
        argv = srun_argv(
            [sys.executable, "-m", "ddlbench.cluster.node_agent", str(logs / "job.json")],
            job=self.allocation.job,
            nodes=len(planned),
            cpus=planned[0].threads,
            gpus=1 if job["devices"] == "gpu" else 0,
        )
        try:
            with Door(host=own_address()) as door, self._log.open("wb") as said:
                self._process = subprocess.Popen(
                    argv,
                    env={**variables_of_a_step(os.environ), DOOR: door.address},
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    preexec_fn=die_with_parent,
                )
                self._await(door, len(planned), job["timeouts"]["launch_s"])
            self._nodes.sort(key=lambda node: int(node.hello["index"]))
            self.hosts = [_host(plan, node) for plan, node in zip(planned, self._nodes, strict=True)]
        except BaseException:
            self.end()
            raise
        self.facts = [node.hello["facts"] for node in self._nodes]
        self.ports = [int(node.hello["port"]) for node in self._nodes]  # the first of each host's members

    @property
    def provenance(self) -> Message:
        """The job, its nodes, and the interface that each talks over."""
        return {
            "job": self.allocation.job,
            "nodes": [node.name for node in self._nodes],
            "interfaces": {node.name: node.hello["interface"] for node in self._nodes},
        }

    def _await(self, door: Door, count: int, limit_s: float) -> None:
        deadline = monotonic() + limit_s
        while len(self._nodes) < count:
            if self._process.poll() is not None:
                raise NodeLost(f"srun could not start our process on each node{tail(self._log)}")
            if monotonic() > deadline:
                here = ", ".join(node.name for node in self._nodes) or "none"
                raise NodeLost(f"of {count} nodes {here} came within {limit_s:.0f} s{tail(self._log)}")
            if come := door.answer(_POLL_S):
                connection, hello = come
                if "error" in hello:
                    raise DdlbenchError(f"node {hello['node']}: {hello['error']}")
                self._nodes.append(Node(hello, connection))

    def start(self, order: Mapping[str, Any], deadline: float) -> RemoteProcess:
        """Have a member started on the node that is its host."""
        node = next(node for node in self._nodes if node.name == order["host"])
        within_s = max(0.0, deadline - monotonic())
        answer = node.ask({"do": "start", "order": dict(order), "within_s": within_s}, within_s + _STOP_S)
        return RemoteProcess(node, answer["pid"])

    def close(self) -> None:
        """Start no more, until `serve`."""
        ask_all(self._nodes, {"do": "close"})

    def serve(self, runtime: str) -> None:
        """Be ready to start members again, in the same runtime or another."""
        ask_all(self._nodes, {"do": "serve", "runtime": runtime})

    def check(self) -> None:
        """Raise NodeLost, with what SLURM says of the job, where a node is not there any more."""
        for node in self._nodes:
            node.read(0.0)
        lost = [node.name for node in self._nodes if node.is_lost]
        if lost or self._process.poll() is not None:
            who = f"node {', '.join(lost)} has gone" if lost else "the nodes have gone"
            said = how_it_ended(self.allocation.job)
            raise NodeLost(f"{who}; SLURM says of job {self.allocation.job}: {said}{tail(self._log)}")

    @contextmanager
    def sampled(
        self, job: Mapping[str, Any], hosts: Sequence[Watched], clock: Clock
    ) -> Iterator["NodesTelemetry | None"]:
        """Have each node watch its own members, as `telemetry.sampled` does on one machine."""
        if not job["telemetry"]["enabled"]:
            yield None
            return
        by_name = {node.name: node for node in self._nodes}
        for host in hosts:
            watch = {"do": "watch", "now_s": clock.now_s(), "role": host.role, "pids": list(host.pids)}
            by_name[host.name].ask(watch)
        telemetry = NodesTelemetry([by_name[host.name] for host in hosts])
        try:
            yield telemetry
        finally:
            with suppress(NodeLost):
                telemetry.close()

    def end(self) -> None:
        """Let the nodes go: with our connections each ends what it has started."""
        for node in self._nodes:
            node.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()  # srun has SLURM end the step
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        finally:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def _host(planned: Host, node: Node) -> Host:
    """The host that a node is. Raises DdlbenchError where it has fewer processors than the study's hosts."""
    cores = tuple(node.hello["cores"])
    if len(cores) < planned.threads:
        raise DdlbenchError(
            f"node {node.name}: the job may use {len(cores)} of its processors, and the study's hosts have "
            f"{planned.threads} (vcpus)"
        )
    return Host(node.name, node.hello["address"], cores, planned.threads, planned.memory_bytes)
