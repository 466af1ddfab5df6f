"""The node agent, one on each node of an allocation: it starts, watches and ends members, and describes the node.

    python -m ddlbench.cluster.node_agent GROUP.json        (a task of srun's, one a node; see `allocated`)

The variable DDLBENCH_CONTROL holds the address at which the supervisor listens. It sends messages over this
connection. When the supervisor is gone, all that the agent has started is killed.
"""

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

from ddlbench.cluster.binding import bindings, numa_of_cores, numa_of_device
from ddlbench.errors import DdlbenchError
from ddlbench.launch.bare import workers_environment
from ddlbench.launch.gpus import usable
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.roles import port_ranges
from ddlbench.launch.starter import Process, Starter
from ddlbench.launch.starters import HostsHere, starter_here
from ddlbench.measurements import facts
from ddlbench.network.fabrics import infiniband_ports, interface_of
from ddlbench.network.hosts import Host
from ddlbench.protocol.agent_messages import (
    TO_AGENT,
    AgentFailed,
    AgentHello,
    AgentReply,
    BeginSteps,
    Binding,
    CloseStarter,
    Done,
    EndSteps,
    Failed,
    KillMember,
    MemberEnded,
    OpenStarter,
    SamplingCosts,
    StartOnNode,
    ToAgent,
    Unwatch,
    Watch,
)
from ddlbench.protocol.channel import Closed, LineChannel, Silent, connect
from ddlbench.protocol.codec import read, read_text
from ddlbench.protocol.fork_messages import Started
from ddlbench.system.clock import Clock
from ddlbench.telemetry.telemetry import Telemetry, Watched, sampled

CONTROL = "DDLBENCH_CONTROL"
_POLL_S = 0.05


class NodeAgent:
    """What runs on this node for one run: the fork server, the members, and the sampler that watches them.

    Raises:
        DdlbenchError: the node has no interface for the job's fabric, or the fork server cannot be started.
    """

    def __init__(self, job: GroupJob, stack: ExitStack) -> None:
        self.job = replace(
            job, inherited=dict(os.environ)
        )  # the variables of this node, not of the supervisor's
        self.name = _node_name()
        self.interface = interface_of(job.fabric, job.interfaces)
        self.members: dict[int, Process] = {}
        self.telemetry: Telemetry | None = None
        stack.callback(self.kill_all)
        self._of_telemetry = stack.enter_context(ExitStack())
        self._of_starter = stack.enter_context(ExitStack())
        self.starter = self._open_starter(job.runtime)

    def _open_starter(self, runtime: str) -> Starter:
        planned = self.job.placement.hosts[0]
        variables = workers_environment(
            os.environ,
            threads=planned.threads,
            interface=self.interface.name,
            infiniband_ports=infiniband_ports(self.interface, self.job.interfaces),
        )
        here = Host(self.name, "", (), planned.threads, planned.memory_bytes)
        log = Path(self.job.logs) / f"fork_server-{self.name}.log"
        starter: Starter = starter_here(
            self.job.environments[runtime],
            self.job.worker,
            variables,
            HostsHere([here], [None]),
            self.job.contained,
            log=log,
        )
        return self._of_starter.enter_context(starter)

    def introduction(self, token: str | None) -> AgentHello:
        """Describe this node for the supervisor.

        Args:
            token: the secret by which the supervisor recognises its agents; None: none is needed.

        Returns:
            The first message to the supervisor: name, address, interface, cores, first port of the job, and facts.

        Raises:
            DdlbenchError: no range of ports is free.
        """
        cores = sorted(os.sched_getaffinity(0))
        return AgentHello(
            index=int(os.environ.get("SLURM_PROCID", "0")),
            node=self.name,
            interface=self.interface.name,
            address=self.interface.ipv4_address or "",
            cores=cores,
            bindings=self._bindings(cores),
            port=free_port(os.environ["SLURM_JOB_ID"]),
            facts=facts.gather(),
            token=token,
        )

    def _bindings(self, cores: Sequence[int]) -> list[Binding]:
        """Divide the node among its workers, if there are several."""
        workers = self.job.local_workers
        if workers == 1:
            return []
        gpus = usable(os.environ) if self.job.devices == "gpu" else ()
        at = [numa_of_device(each.pci_address) for each in gpus]
        return bindings(cores, [each.uuid for each in gpus], workers, numa_of_cores(), at)

    def carry_out(self, message: ToAgent) -> AgentReply:
        """Carry out a message of the supervisor's.

        Args:
            message: what to do.

        Returns:
            The reply: `Done`, where the message has none of its own.

        Raises:
            DdlbenchError: it cannot be done.
        """
        match message:
            case StartOnNode(member, within_s):
                process = self.starter.start(member, monotonic() + within_s)
                self.members[process.pid] = process
                return Started(process.pid)
            case KillMember(pid):
                if pid in self.members:  # else it has ended
                    self.members[pid].kill()
            case CloseStarter():
                self.starter.close()
            case OpenStarter(runtime):
                self._of_starter.close()
                self.starter = self._open_starter(runtime)
            case Watch():
                self._watch(message)
            case BeginSteps(point, repetition) if self.telemetry:
                self.telemetry.begin(point, repetition)
            case EndSteps(steps) if self.telemetry:
                return self.telemetry.end(steps)
            case Unwatch():
                self._of_telemetry.close()
                costs = self.telemetry.costs if self.telemetry else None
                return Done(read(SamplingCosts, costs) if costs else None)
        return Done()

    def _watch(self, watch: Watch) -> None:
        """Sample the members on this node, on the supervisor's clock."""
        logs = Path(self.job.logs) / self.name
        logs.mkdir(parents=True, exist_ok=True)
        sampling = replace(
            watch.sampling,
            folder=str(Path(watch.sampling.folder) / self.name),
            log=str(logs / Path(watch.sampling.log).name),
        )
        watched = Watched(self.name, watch.role, None, watch.pids, has_machine=True)
        clock = Clock(started=monotonic() - watch.now_s)
        self.telemetry = self._of_telemetry.enter_context(sampled([watched], sampling, clock))

    def ended(self) -> list[MemberEnded]:
        """Return the members that have ended since the last call, and forget them."""
        found = [(pid, status) for pid, each in self.members.items() if (status := each.poll()) is not None]
        for pid, _ in found:
            del self.members[pid]
        return [MemberEnded(pid, status) for pid, status in found]

    def kill_all(self) -> None:
        """Kill all members and wait until they have ended."""
        for each in self.members.values():
            each.kill()
        for each in self.members.values():
            each.wait()


def free_port(job: str) -> int:
    """Find a range of ports for the job's processes, none of which is in use on this node.

    Args:
        job: SLURM's number of the job, which determines the ranges that are tried.

    Returns:
        The first port of the range.

    Raises:
        DdlbenchError: every range has a port that is in use.
    """
    for ports in port_ranges(job):
        with ExitStack() as bound, suppress(OSError):
            for port in ports:
                bound.enter_context(socket.create_server(("", port)))
            return ports.start
    raise DdlbenchError("somebody listens in every range of ports that the processes of a job may have")


def serve(agent: NodeAgent, supervisor: LineChannel[ToAgent]) -> None:
    """Carry out the supervisor's messages and report members that have ended, until the connection is closed.

    Args:
        agent: what carries the messages out; if it raises a DdlbenchError or an OSError, the reply is `Failed`.
        supervisor: the connection to the supervisor.
    """
    with suppress(Closed, Silent):
        while True:
            for ended in agent.ended():
                supervisor.send(ended)
            for message in supervisor.arrived(_POLL_S):
                try:
                    reply = agent.carry_out(message)
                except (DdlbenchError, OSError) as error:
                    reply = Failed(str(error))
                supervisor.send(reply)


def main(job_path: str) -> int:
    """Run the node agent; an error's text is printed and sent to the supervisor.

    Args:
        job_path: the JSON file of the `GroupJob`.

    Returns:
        The exit code of the process.
    """
    try:
        connection, token = connect(os.environ.pop(CONTROL))
    except OSError as error:
        print(f"the supervisor of this run is not there, or not any more: {error}", file=sys.stderr)
        return 1
    supervisor: LineChannel[ToAgent] = LineChannel(connection, kinds=TO_AGENT)
    with ExitStack() as stack:
        try:
            agent = NodeAgent(read_text(GroupJob, Path(job_path).read_text()), stack)
            hello = agent.introduction(token)
        except (DdlbenchError, OSError) as error:
            with suppress(Closed, Silent):  # the supervisor has gone, as another node has failed before
                supervisor.send(AgentFailed(_node_name(), str(error), token))
            return error.exit_code if isinstance(error, DdlbenchError) else 1
        with suppress(Closed, Silent):  # the supervisor has gone
            supervisor.send(hello)
            serve(agent, supervisor)
    return 0


def _node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
