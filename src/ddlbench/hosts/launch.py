"""A worker group on the hosts of a job: a star of emulated hosts, the loopback, or nodes of a cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

from ddlbench.cluster.allocation import Nodes
from ddlbench.cluster.slurm import own_address
from ddlbench.environments.materials import BARE
from ddlbench.launch.bare import workers_environment
from ddlbench.launch.control_socket import Door
from ddlbench.launch.gpu_variables import gpu_variables
from ddlbench.launch.host_control_sockets import HostDoors
from ddlbench.launch.roles import WORKER, Member, cluster
from ddlbench.launch.starter import Starter
from ddlbench.launch.starters import starter_here
from ddlbench.launch.worker_group import Launch, Message, Timeouts, WorkerGroup
from ddlbench.network.fabrics import interface_of
from ddlbench.network.hosts import Host
from ddlbench.network.star import Star
from ddlbench.plan.catalogue import BETWEEN_MACHINES
from ddlbench.system.gpu_shares import GpuShare

_LOOPBACK = "127.0.0.1"


class Crew:
    """The job's worker group and what it is on: a star of hosts, nodes, or neither; `renew` puts another in its place.

    `runtime`: what the group runs in. `startup_s`: from starting its first process until all members have said hello.
    `facts`: of each host, where the job or its node tells them. `gpus`: each worker's, where they are this machine's.
    """

    def __init__(
        self, job: Mapping[str, Any], worker: str, told: Mapping[str, Any], stack: ExitStack
    ) -> None:
        self.hosts = [Host(**{**host, "cores": tuple(host["cores"])}) for host in job["placement"]["hosts"]]
        self.facts = [job.get("facts")] * len(self.hosts)
        self.members = [Member(**member) for member in job["members"]]
        self.gpus = [GpuShare(**share) for share in job["placement"].get("gpus", ())]
        self.runtime: str = job.get("runtime", BARE)
        self._job = job
        self._worker = worker
        self._logs = Path(job["logs"])
        self._timeouts = Timeouts(**job["timeouts"])
        self._of_group = stack.enter_context(ExitStack())
        self._began_s = monotonic()
        self.star: Star | None = None
        self.nodes: Nodes | None = None
        early: Starter | None = None
        ports: list[int] = []
        if is_on_nodes(job["fabric"]):
            self.nodes = early = stack.enter_context(Nodes(job))
            self.hosts, self.facts = self.nodes.hosts, self.nodes.facts
            ports = self.nodes.ports
        else:
            interface = interface_of(job["fabric"], job["interfaces"])
            self._variables = workers_environment(
                job["inherited"],
                threads=self.hosts[0].threads,
                interface=interface.name,
                infiniband_port=interface.infiniband_port,
            )
            if self.runtime == BARE:
                early = self._starter()  # imports its framework meanwhile
        if job["fabric"] == "emulated":
            self.star = stack.enter_context(_star(job, self.hosts))
        elif not self.nodes:
            raise_loopback()
        addresses = [host.address if self.star or self.nodes else _LOOPBACK for host in self.hosts]
        self._jobs = jobs(
            self.members,
            self.hosts,
            addresses,
            self._timeouts,
            {**told, "devices": job["devices"], "dilation": job["placement"]["dilation"]},
            ports=ports,
            gpus=self.gpus,
        )
        stack.push(self._of_group)  # the group ends before its hosts do
        self.group = self._group(early)

    def renew(self, runtime: str | None = None) -> None:
        """End the group and start another, whose connections have seen nothing yet, in the same runtime or another."""
        self._of_group.close()
        self.runtime = runtime or self.runtime
        self.group = self._group()

    def _namespaces(self) -> list[int | None]:
        return list(self.star.namespaces) if self.star else [None] * len(self.hosts)

    def _own_variables(self, member: Member) -> dict[str, str]:
        return gpu_variables(
            _gpu_of(member, self.gpus),
            computes_on_gpu=self._job["devices"] == "gpu" and member.role == WORKER,
            host=self.hosts[member.host].name,
            fabric=self._job["fabric"],
        )

    def _starter(self) -> Starter:
        self._began_s = monotonic()
        if self.nodes:
            self.nodes.serve(self.runtime)
            return self.nodes
        where = (self.hosts, self._namespaces())
        log = self._logs / "fork_server.log"
        starter = starter_here(self._job, self.runtime, self._worker, self._variables, *where, log=log)
        self._of_group.enter_context(starter)
        return starter

    def _group(self, starter: Starter | None = None) -> WorkerGroup:
        namespaces = self._namespaces()
        starter = starter or self._starter()
        launches = [
            Launch(
                self.hosts[member.host],
                namespaces[member.host],
                self._logs / f"{_name(member)}.log",
                member.role,
                self._own_variables(member),
            )
            for member in self.members
        ]
        below = self.star.backend if self.star else self.nodes
        check: Callable[[], None] = below.check if below else lambda: None
        group = self._of_group.enter_context(
            WorkerGroup(
                starter,
                launches,
                self._jobs,
                door=Door(host=own_address()) if self.nodes else HostDoors(namespaces),
                timeouts=self._timeouts,
                check=check,
            )
        )
        self.startup_s = group.greeted_s - self._began_s
        starter.close()
        return group


@contextmanager
def launched(job: Mapping[str, Any], worker: str, told: Mapping[str, Any]) -> Iterator[Crew]:
    """The job's worker group on its hosts (no star of them where they share the loopback, or are nodes of a cluster).

    job: runtime and environments (a description each runtime; without them `python` is a bare one's), fabric,
    interfaces (named by fabric), congestion_control, placement, members (of `roles`), sites (how many), devices,
    timeouts, inherited (variables), logs (a folder); for containers also run (its id) and readable (folders).
    worker: a name of `workers.modules`; told: what each rank is told besides. Call it in a sandbox, as its first
    process; for nodes in a SLURM job, and in no sandbox. Raises DdlbenchError where hosts or workers cannot be had.
    """
    with ExitStack() as stack:
        yield Crew(job, worker, told, stack)


def jobs(
    members: Sequence[Member],
    hosts: Sequence[Host],
    addresses: Sequence[str],
    timeouts: Timeouts,
    told: Mapping[str, Any],
    *,
    ports: Sequence[int] = (),
    gpus: Sequence[GpuShare] = (),
) -> list[Message]:
    """What each member of a group is told first, by rank; addresses: of the hosts, as the members reach them.

    ports: of each host, the first of those that its members listen at; FIRST_PORT without. gpus: of each worker; a
    worker that is told of none and computes on GPUs has those that it sees for itself.
    """
    cluster_of_all = cluster(members, addresses, ports)
    return [
        {
            "rank": rank,
            "role": member.role,
            "index": member.index,
            "world_size": sum(each.role == WORKER for each in members),
            "threads": hosts[member.host].threads,
            "core_share": hosts[member.host].core_share,
            "address": addresses[member.host],
            "cluster": cluster_of_all,
            "rendezvous": cluster_of_all[WORKER][0],
            "timeout_s": timeouts.prepare_s + timeouts.step_s,
            "gpu": asdict(share) if (share := _gpu_of(member, gpus)) else None,
            **told,
        }
        for rank, member in enumerate(members)
    ]


def is_on_nodes(fabric: str) -> bool:
    """Whether a fabric lies between machines, which must be had from a scheduler."""
    return fabric in BETWEEN_MACHINES


def _gpu_of(member: Member, gpus: Sequence[GpuShare]) -> GpuShare | None:
    return gpus[member.index] if member.role == WORKER and gpus else None


def _name(member: Member) -> str:
    return f"rank{member.index}" if member.role == WORKER else member.role


def _star(job: Mapping[str, Any], hosts: list[Host]) -> Star:
    return Star(
        [host.address for host in hosts],
        congestion_control=job["congestion_control"],
        dilation=job["placement"]["dilation"],
        sites=job["sites"],
    )


def raise_loopback() -> None:
    """Set up the sandbox's own loopback interface, which is down at first."""
    from pyroute2 import IPRoute

    with IPRoute() as network:
        network.link("set", index=1, state="up")
