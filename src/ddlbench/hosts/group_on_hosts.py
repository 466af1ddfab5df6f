"""Start a job's worker group on the hosts that its fabric connects, and replace the group."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

from ddlbench.cluster.allocated import AllocatedHosts
from ddlbench.environments.materials import BARE
from ddlbench.hosts.group_hosts import Hosts
from ddlbench.hosts.this_machine import EmulatedHosts, LoopbackHosts
from ddlbench.launch.fork_starter import ForkServer
from ddlbench.launch.gpu_variables import gpu_variables
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.group_member import Launch
from ddlbench.launch.roles import HOLDING, WORKER, Member, cluster
from ddlbench.launch.starter import Starter
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.network.hosts import Host
from ddlbench.plan.catalogue import BETWEEN_MACHINES
from ddlbench.protocol.agent_messages import Binding
from ddlbench.protocol.messages import Assignment, GpuShare
from ddlbench.shares.bursts import burst_percent
from ddlbench.shares.core_division import Between, Division
from ddlbench.shares.fillers import Fillers

_CONTAINED = (
    "docker",
)  # runtimes whose containers have control groups of their own; Apptainer's are in ours


class GroupOnHosts:
    """A job's worker group and its hosts; `renew` replaces the group.

    Args:
        job: the group, its hosts and what it runs.
        stack: ends the group and then its hosts.

    Attributes:
        hosts: on which the group runs.
        members: its processes, by rank.
        group: the group that is running.
        fillers: of the hosts that share cores; let them run while the group trains.
        runtime: in which it runs.
        startup_s: from starting its first process until the last member's Hello, in seconds; None for a group
            that an earlier one's fork server has started, which had imported the framework already.
        gpus: each worker's, if they are this machine's.

    Raises:
        DdlbenchError: hosts or workers cannot be started.
    """

    def __init__(self, job: GroupJob, stack: ExitStack) -> None:
        self._job = job
        self._of_group = stack.enter_context(ExitStack())
        self._began_s = monotonic()
        self.members = job.members
        self.gpus = job.placement.gpus
        self.runtime = job.runtime
        self._given_step_s = job.timeouts.step_s
        self.hosts = hosts_of(job, stack)
        if job.runtime != BARE and job.fabric not in BETWEEN_MACHINES:
            self._began_s = monotonic()  # containers start now, and not while the network is made
        self._assignments = assignments(job, self.hosts.hosts, self.hosts.addresses, self.hosts.ports)
        self._divisions = stack.enter_context(ExitStack())
        self._division: dict[str, Division] = {}  # by runtime
        self._burst_percent: dict[str, Sequence[float | None]] = {}
        self._servers = stack.enter_context(ExitStack())
        self._server: ForkServer | None = (
            None  # of all groups, where none is in a container or on another machine
        )
        stack.push(self._of_group)  # the group ends before its hosts do
        self.group, self.fillers = self._group()

    @property
    def divided_between(self) -> Between | None:
        """What divides the cores that hosts share; None: no host shares its core."""
        return self._division[self.runtime].between

    @property
    def burst_percent(self) -> Sequence[float | None]:
        """Of each host, as of `shares.bursts`: measured when the first group of this runtime had started."""
        return self._burst_percent[self.runtime]

    @property
    def can_time_bursts(self) -> bool:
        """Whether the group's fork server is still there."""
        return self._server is not None and self._server.is_alive()

    def time_bursts(self) -> None:
        """Time the bursts of `burst_percent` again; the group has nothing to do, and `can_time_bursts`.

        Raises:
            DdlbenchError: a process could not be started, or not in time.
        """
        assert self._server is not None
        hosts, deadline = self.hosts.hosts, monotonic() + self._job.timeouts.launch_s
        starter = self._division[self.runtime].starter(self._server, hosts, deadline)
        self._burst_percent[self.runtime] = burst_percent(starter, hosts, self.fillers, deadline)

    def renew(self, runtime: str | None = None) -> None:
        """End the group and start another one with new connections.

        Args:
            runtime: in which it starts (None: the same).

        Raises:
            DdlbenchError: workers cannot be started.
        """
        self._of_group.close()
        self.runtime = runtime or self.runtime
        self._began_s = monotonic()
        self.group, self.fillers = self._group()

    def dilate(self, dilation: float, slowest_replay_ms: float) -> None:
        """Let time run at another rate from now on; the links must be open.

        Args:
            dilation: the factor.
            slowest_replay_ms: what the slowest replayed step takes at least, without dilation; time-outs allow it.
        """
        assert self.hosts.star is not None
        self.hosts.star.dilate(dilation)
        slowest_s = slowest_replay_ms * dilation / 1000
        timeouts = replace(self._job.timeouts, step_s=self._given_step_s + 2 * slowest_s)
        placement = replace(self._job.placement, dilation=dilation)
        self._job = replace(self._job, placement=placement, timeouts=timeouts)
        self._assignments = assignments(self._job, self.hosts.hosts, self.hosts.addresses, self.hosts.ports)
        self.group.timeouts = timeouts

    def _group(self) -> tuple[WorkerGroup, Fillers]:
        hosts, limit_s = self.hosts.hosts, self._job.timeouts.launch_s
        division = self._division.setdefault(
            self.runtime, Division(self._divisions, contained=self.runtime in _CONTAINED)
        )
        plain, is_new = self._starter()
        starter = division.starter(plain, hosts, monotonic() + limit_s)
        launches = [
            Launch(
                self._bound(member),
                self.hosts.namespaces[member.host],
                Path(self._job.logs) / f"{_name(member)}.log",
                member.role,
                self._variables(member),
            )
            for member in self.members
        ]
        group = self._of_group.enter_context(
            WorkerGroup(
                starter,
                launches,
                self._assignments,
                control=self.hosts.control_socket(),
                timeouts=self._job.timeouts,
                check=self.hosts.check,
            )
        )
        self.startup_s = group.greeted_s - self._began_s - division.tried_s() if is_new else None
        fillers = self._of_group.enter_context(Fillers(starter, hosts, monotonic() + limit_s))
        if self.runtime not in self._burst_percent:
            self._burst_percent[self.runtime] = burst_percent(starter, hosts, fillers, monotonic() + limit_s)
        if plain is not self._server:
            plain.close()
        return group, fillers

    def _starter(self) -> tuple[Starter, bool]:
        """What starts the next group, and whether it is new: a framework is imported once where that can be."""
        if self._server and self._server.is_alive():
            return self._server, False
        if set(self._job.environments) == {BARE} and self._job.fabric not in BETWEEN_MACHINES:
            starter = self._servers.enter_context(self.hosts.starter(BARE))
            self._server = starter if isinstance(starter, ForkServer) else None
            return starter, True
        return self._of_group.enter_context(self.hosts.starter(self.runtime)), True

    def _bound(self, member: Member) -> Host:
        """The host of a member; of several workers on a node each has its own processors."""
        host, binding = self.hosts.hosts[member.host], self._binding(member)
        return replace(host, cores=binding.cores) if binding else host

    def _binding(self, member: Member) -> Binding | None:
        of_host = self.hosts.bindings[member.host] if self.hosts.bindings else ()
        return of_host[member.index % len(of_host)] if of_host and member.role == WORKER else None

    def _variables(self, member: Member) -> dict[str, str]:
        """The environment variables that a member has for itself."""
        return gpu_variables(
            _gpu_of(member, self.gpus),
            computes_on_gpu=self._job.devices == "gpu" and member.role == WORKER,
            host=self.hosts.hosts[member.host].name,
            fabric=self._job.fabric,
            bound_to=binding.gpu if (binding := self._binding(member)) else None,
        )


@contextmanager
def launched(job: GroupJob) -> Iterator[GroupOnHosts]:
    """Start a job's worker group on its hosts, for the length of a `with`.

    Call it in a sandbox, as its first process; for nodes of a cluster in a SLURM job, outside of any sandbox.

    Args:
        job: the group, its hosts and what it runs.

    Yields:
        The group, whose members are ready for commands.

    Raises:
        DdlbenchError: hosts or workers cannot be started.
    """
    with ExitStack() as stack:
        yield GroupOnHosts(job, stack)


def hosts_of(job: GroupJob, stack: ExitStack) -> Hosts:
    """Set up the hosts that a job's fabric connects.

    Args:
        job: its placement, fabric and interfaces.
        stack: ends the hosts.

    Returns:
        Nodes of the allocation, emulated hosts, or hosts on the loopback.

    Raises:
        DdlbenchError: they cannot be set up.
    """
    if job.fabric in BETWEEN_MACHINES:
        return stack.enter_context(AllocatedHosts(job))
    return (EmulatedHosts if job.fabric == "emulated" else LoopbackHosts)(job, stack)


def assignments(
    job: GroupJob, hosts: Sequence[Host], addresses: Sequence[str], ports: Sequence[int] = ()
) -> list[Assignment]:
    """Write the assignment of each member.

    A worker that computes on GPUs and is given none has those that its node makes visible.

    Args:
        job: the group.
        hosts: on which it runs.
        addresses: of the hosts, as the members reach them.
        ports: of each host, the first of those that its members listen at; empty: `roles.FIRST_PORT`.

    Returns:
        One assignment for each member, by rank.
    """
    processes = cluster(job.members, addresses, ports)
    server_bytes = max(
        (hosts[each.host].memory_bytes for each in job.members if each.role in HOLDING), default=0
    )
    limits = job.timeouts
    # Later than the group gives them up: a framework that gives up first looks like one that has failed.
    timeout_s = job.framework_timeout_s or limits.prepare_s + limits.step_s + limits.heartbeat_s
    return [
        Assignment(
            rank=rank,
            role=member.role,
            index=member.index,
            world_size=sum(each.role == WORKER for each in job.members),
            threads=hosts[member.host].threads,
            address=addresses[member.host],
            cluster=processes,
            rendezvous=processes[WORKER][0],
            timeout_s=timeout_s,
            devices=job.devices,
            dilation=job.placement.dilation,
            strategy=job.strategy,
            datasets=job.datasets,
            gpu=_gpu_of(member, job.placement.gpus),
            core_share=hosts[member.host].core_share,
            workers_per_host=job.workers_per_host,
            server_bytes=server_bytes,
        )
        for rank, member in enumerate(job.members)
    ]


def _gpu_of(member: Member, gpus: Sequence[GpuShare]) -> GpuShare | None:
    return gpus[member.index] if member.role == WORKER and gpus else None


def _name(member: Member) -> str:
    return f"rank{member.index}" if member.role == WORKER else member.role
