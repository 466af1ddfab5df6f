"""Hosts that are nodes of a SLURM allocation: one srun starts a node agent on each."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

from ddlbench.cluster.agent_client import Node, NodeLost, NodesTelemetry, RemoteProcess, ask_all
from ddlbench.cluster.node_agent import CONTROL
from ddlbench.cluster.slurm import allocation, how_it_ended, is_exclusive, own_address
from ddlbench.cluster.srun import srun_argv, variables_of_a_step
from ddlbench.errors import DdlbenchError
from ddlbench.files import tail, write_atomically
from ddlbench.launch.control_socket import ControlSocket, tcp_socket
from ddlbench.launch.group_job import GroupJob
from ddlbench.network.hosts import Host
from ddlbench.protocol.agent_messages import (
    FROM_AGENT,
    AgentFailed,
    AgentHello,
    Binding,
    CloseStarter,
    Done,
    OpenStarter,
    Sampling,
    StartOnNode,
    Watch,
)
from ddlbench.protocol.codec import written
from ddlbench.protocol.fork_messages import Start, Started, StartMember
from ddlbench.protocol.messages import FROM_MEMBER, Hello
from ddlbench.system.clock import Clock
from ddlbench.system.processes import die_with_parent
from ddlbench.telemetry.telemetry import Watched

_POLL_S = 0.2
_STOP_S = 10.0


class AllocatedHosts:
    """Nodes of the allocation that this process is in, one for each host of the job, from one srun to its end.

    Raises:
        DdlbenchError: there are too few nodes, or one has too few processors or cannot carry the job's fabric.
        NodeLost: srun failed, or an agent has not connected in time.
    """

    star = None

    def __init__(self, job: GroupJob) -> None:
        planned = job.placement.hosts
        self.allocation = allocation()
        if len(self.allocation.nodes) < len(planned):
            raise DdlbenchError(
                f"{job.run} needs {len(planned)} nodes, and SLURM's job {self.allocation.job} has "
                f"{len(self.allocation.nodes)}: {', '.join(self.allocation.nodes)}"
            )
        logs = Path(job.logs)
        self._log = logs / "srun.log"
        self._nodes: list[Node] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._early: str | None = job.runtime  # each agent opens a starter in this runtime at once
        write_atomically(logs / "group.json", written(job))
        argv = srun_argv(
            [sys.executable, "-m", "ddlbench.cluster.node_agent", str(logs / "group.json")],
            job=self.allocation.job,
            nodes=len(planned),
            cpus=planned[0].threads * job.workers_per_host,
            gpus=job.local_workers if job.devices == "gpu" else 0,
        )
        try:
            control: ControlSocket[AgentHello | AgentFailed] = tcp_socket(
                own_address(), greetings=(AgentHello, AgentFailed), kinds=FROM_AGENT
            )
            with control, self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    argv,
                    env={**variables_of_a_step(os.environ), CONTROL: control.address},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_parent,
                )
                self._await(control, len(planned), job.timeouts.launch_s)
            self._nodes.sort(key=lambda node: node.hello.index)
            self.hosts: Sequence[Host] = [
                _host(plan, node, planned[0].threads * job.workers_per_host)
                for plan, node in zip(planned, self._nodes, strict=True)
            ]
        except BaseException:
            self.end()
            raise
        self.addresses: Sequence[str] = [host.address for host in self.hosts]
        self.namespaces: Sequence[int | None] = [None] * len(self.hosts)
        self.ports: Sequence[int] = [node.hello.port for node in self._nodes]
        self.bindings: Sequence[Sequence[Binding]] = [node.hello.bindings for node in self._nodes]
        self.facts: Sequence[Mapping[str, object]] = [node.hello.facts for node in self._nodes]
        self.provenance: Mapping[str, object] = {
            "slurm": {
                "job": self.allocation.job,
                "exclusive": is_exclusive(self.allocation.job),
                "nodes": [node.name for node in self._nodes],
                "interfaces": {node.name: node.hello.interface for node in self._nodes},
            }
        }

    def _await(self, control: ControlSocket[AgentHello | AgentFailed], count: int, limit_s: float) -> None:
        """Wait until that many agents have sent their Hello."""
        deadline = monotonic() + limit_s
        while len(self._nodes) < count:
            if self._process is None or self._process.poll() is not None:
                raise NodeLost(f"srun could not start our process on each node{tail(self._log)}")
            if monotonic() > deadline:
                here = ", ".join(node.name for node in self._nodes) or "none"
                raise NodeLost(f"of {count} nodes {here} came within {limit_s:.0f} s{tail(self._log)}")
            if accepted := control.accept(_POLL_S):
                channel, hello = accepted
                if isinstance(hello, AgentFailed):
                    raise DdlbenchError(f"node {hello.node}: {hello.why}")
                self._nodes.append(Node(hello, channel))

    def starter(self, runtime: str) -> "NodesStarter":
        """Make the nodes ready to start members in a runtime.

        Args:
            runtime: the runtime's name, a key of the job's `environments`.

        Returns:
            The starter, which is used for this runtime only.

        Raises:
            DdlbenchError: a node cannot start processes in the runtime.
            NodeLost: a node is gone.
        """
        if self._early != runtime:
            ask_all(self._nodes, OpenStarter(runtime), Done)
        self._early = None
        return NodesStarter(self._nodes)

    def control_socket(self) -> ControlSocket[Hello]:
        """Open the control socket to which members connect over TCP."""
        return tcp_socket(own_address(), greetings=(Hello,), kinds=FROM_MEMBER)

    def check(self) -> None:
        """Check that all nodes are still there.

        Raises:
            NodeLost: one is not; the text has the job's state according to SLURM.
        """
        for node in self._nodes:
            node.read(0.0)
        lost = [node.name for node in self._nodes if node.is_lost]
        if lost or self._process is None or self._process.poll() is not None:
            who = f"node {', '.join(lost)} has gone" if lost else "the nodes have gone"
            state = how_it_ended(self.allocation.job)
            raise NodeLost(f"{who}; SLURM says of job {self.allocation.job}: {state}{tail(self._log)}")

    @contextmanager
    def sampled(
        self, watched: Sequence[Watched], sampling: Sampling, clock: Clock
    ) -> Iterator[NodesTelemetry]:
        """Sample the members of each node on that node, as `telemetry.sampled` does on one machine.

        Args:
            watched: the hosts and their members' process ids; each host's name is a node's.
            sampling: what is sampled, how often, and where the files go.
            clock: the supervisor's clock, on which all times are.

        Yields:
            The telemetry of all nodes; its costs are known after the `with`.

        Raises:
            DdlbenchError: a sampler cannot be started.
            NodeLost: a node is gone.
        """
        by_name = {node.name: node for node in self._nodes}
        for host in watched:
            by_name[host.name].ask(Watch(clock.now_s(), host.role, host.pids, sampling), Done)
        telemetry = NodesTelemetry([by_name[host.name] for host in watched])
        try:
            yield telemetry
        finally:
            with suppress(NodeLost):
                telemetry.close()

    def end(self) -> None:
        """Close the connections, upon which each node ends what it has started, and end srun."""
        for node in self._nodes:
            node.close()
        if self._process is None:
            return
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


class NodesStarter:
    """Starts each member on the node that is its host."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}

    def start(self, start: Start, deadline: float) -> RemoteProcess:
        """Start a member on the node that is its host.

        Args:
            start: the member, and the name of its host; nodes share no core, so they have no fillers.
            deadline: until when it must have started, in s of the monotonic clock.

        Returns:
            The member's process on the node.

        Raises:
            DdlbenchError: the member could not be started.
            NodeLost: the node is gone, or has not replied in time.
        """
        assert isinstance(start, StartMember)
        node = self._nodes[start.host]
        within_s = max(0.0, deadline - monotonic())
        return RemoteProcess(node, node.ask(StartOnNode(start, within_s), Started, within_s + _STOP_S).pid)

    def close(self) -> None:
        """Start no further members; those that were started continue."""
        ask_all(self._nodes.values(), CloseStarter(), Done)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: `close` is called explicitly, and the nodes end with the job."""


def _host(planned: Host, node: Node, vcpus: int) -> Host:
    """Describe a node as a host. Raises DdlbenchError if it has fewer processors than the study's hosts."""
    hello = node.hello
    if len(hello.cores) < vcpus:
        raise DdlbenchError(
            f"node {node.name}: the job may use {len(hello.cores)} of its processors, and the study's hosts have "
            f"{vcpus} (vcpus)"
        )
    return Host(node.name, hello.address, tuple(hello.cores), planned.threads, planned.memory_bytes)
