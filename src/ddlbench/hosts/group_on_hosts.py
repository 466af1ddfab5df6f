"""A worker group on its hosts."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic

from ddlbench.cluster.allocated import AllocatedHosts
from ddlbench.hosts.group_hosts import Hosts
from ddlbench.hosts.this_machine import EmulatedHosts, LoopbackHosts
from ddlbench.launch.gpu_variables import gpu_variables
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.group_member import Launch
from ddlbench.launch.roles import WORKER, Member, cluster
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.network.hosts import Host
from ddlbench.plan.catalogue import BETWEEN_MACHINES
from ddlbench.protocol.messages import Assignment, GpuShare


class GroupOnHosts:
    """A job's worker group and its hosts; `renew` replaces the group.

    Attributes:
        hosts: where it is.
        members: its processes, by rank.
        group: the group that is alive now.
        runtime: what that runs in.
        startup_s: from starting its first process until the last member's Hello.
        gpus: each worker's, if they are this machine's.
    """

    def __init__(self, job: GroupJob, stack: ExitStack) -> None:
        self._job = job
        self._of_group = stack.enter_context(ExitStack())
        self._began_s = monotonic()
        self.members = job.members
        self.gpus = job.placement.gpus
        self.runtime = job.runtime
        self.hosts = hosts_of(job, stack)
        self._assignments = assignments(job, self.hosts.hosts, self.hosts.addresses, self.hosts.ports)
        stack.push(self._of_group)  # the group ends before its hosts do
        self.group = self._group()

    def renew(self, runtime: str | None = None) -> None:
        """End the group and start another, whose connections are new.

        Args:
            runtime: in which it starts (None: the same).
        """
        self._of_group.close()
        self.runtime = runtime or self.runtime
        self._began_s = monotonic()
        self.group = self._group()

    def _group(self) -> WorkerGroup:
        starter = self._of_group.enter_context(self.hosts.starter(self.runtime))
        launches = [
            Launch(
                self.hosts.hosts[member.host],
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
        self.startup_s = group.greeted_s - self._began_s
        starter.close()
        return group

    def _variables(self, member: Member) -> dict[str, str]:
        """The environment variables that a member has for itself."""
        return gpu_variables(
            _gpu_of(member, self.gpus),
            computes_on_gpu=self._job.devices == "gpu" and member.role == WORKER,
            host=self.hosts.hosts[member.host].name,
            fabric=self._job.fabric,
        )


@contextmanager
def launched(job: GroupJob) -> Iterator[GroupOnHosts]:
    """The job's worker group on its hosts, for the length of a `with`.

    Call it in a sandbox, as its first process; for nodes of a cluster in a SLURM job, and in no sandbox.

    Raises:
        DdlbenchError: hosts or workers cannot be started.
    """
    with ExitStack() as stack:
        yield GroupOnHosts(job, stack)


def hosts_of(job: GroupJob, stack: ExitStack) -> Hosts:
    """The hosts that a job's fabric connects; they end with the stack."""
    if is_on_nodes(job.fabric):
        return stack.enter_context(AllocatedHosts(job))
    return (EmulatedHosts if job.fabric == "emulated" else LoopbackHosts)(job, stack)


def assignments(
    job: GroupJob, hosts: Sequence[Host], addresses: Sequence[str], ports: Sequence[int] = ()
) -> list[Assignment]:
    """What each member of a group is, by rank.

    A worker that is given no GPU and computes on GPUs has those that it sees for itself.

    Args:
        job: the group.
        hosts: where it is.
        addresses: of the hosts, as the members reach them.
        ports: of each host, the first of those that its members listen at; empty: `roles.FIRST_PORT`.
    """
    processes = cluster(job.members, addresses, ports)
    timeout_s = job.framework_timeout_s or job.timeouts.prepare_s + job.timeouts.step_s
    return [
        Assignment(
            rank=rank,
            role=member.role,
            index=member.index,
            world_size=sum(each.role == WORKER for each in job.members),
            threads=hosts[member.host].threads,
            core_share=hosts[member.host].core_share,
            address=addresses[member.host],
            cluster=processes,
            rendezvous=processes[WORKER][0],
            timeout_s=timeout_s,
            devices=job.devices,
            dilation=job.placement.dilation,
            strategy=job.strategy,
            datasets=job.datasets,
            gpu=_gpu_of(member, job.placement.gpus),
        )
        for rank, member in enumerate(job.members)
    ]


def is_on_nodes(fabric: str) -> bool:
    """Whether a fabric lies between machines, which a scheduler allocates."""
    return fabric in BETWEEN_MACHINES


def _gpu_of(member: Member, gpus: Sequence[GpuShare]) -> GpuShare | None:
    return gpus[member.index] if member.role == WORKER and gpus else None


def _name(member: Member) -> str:
    return f"rank{member.index}" if member.role == WORKER else member.role
