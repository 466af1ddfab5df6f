"""Hosts on this machine: emulated ones, each in a network namespace, or all on the loopback."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from ddlbench.environments.materials import BARE
from ddlbench.launch.bare import workers_environment
from ddlbench.launch.control_socket import ControlSocket
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.host_control_sockets import host_control_sockets
from ddlbench.launch.starter import Starter
from ddlbench.launch.starters import HostsHere, starter_here
from ddlbench.network.fabrics import infiniband_ports, interface_of
from ddlbench.network.hosts import Host
from ddlbench.network.star import Star
from ddlbench.protocol.agent_messages import Binding, Sampling
from ddlbench.protocol.messages import Hello
from ddlbench.system.clock import Clock
from ddlbench.telemetry.telemetry import RunTelemetry, Watched, sampled

_LOOPBACK = "127.0.0.1"


class LoopbackHosts:
    """Hosts that share the sandbox's own loopback, and so have no network between them.

    A bare group's first starter begins at once and imports the framework while the rest is prepared.

    Args:
        job: its placement, environments and worker.
        stack: ends what the hosts have started.
    """

    star: Star | None = None

    def __init__(self, job: GroupJob, stack: ExitStack) -> None:
        self._job = job
        self.hosts: Sequence[Host] = job.placement.hosts
        self.namespaces: Sequence[int | None] = [None] * len(self.hosts)
        self.addresses: Sequence[str] = [_LOOPBACK] * len(self.hosts)
        self.ports: Sequence[int] = ()
        self.bindings: Sequence[Sequence[Binding]] = ()
        self.facts: Sequence[Mapping[str, object]] = [job.facts] * len(self.hosts)
        self.provenance: Mapping[str, object] = {}
        interface = interface_of(job.fabric, job.interfaces)
        self._variables = workers_environment(
            job.inherited,
            threads=self.hosts[0].threads,
            interface=interface.name,
            infiniband_ports=infiniband_ports(interface, job.interfaces),
        )
        self._early = stack.enter_context(self._new_starter(BARE)) if job.runtime == BARE else None
        self._open(stack)

    def _open(self, stack: ExitStack) -> None:
        raise_loopback()

    def starter(self, runtime: str) -> Starter:
        """Make what starts members: a fork server, or containers with one in each.

        Args:
            runtime: in which they start, a key of the job's environments.

        Returns:
            A starter for members on all hosts; the caller closes it.
        """
        early, self._early = self._early, None
        return early or self._new_starter(runtime)

    def _new_starter(self, runtime: str) -> Starter:
        return starter_here(
            self._job.environments[runtime],
            self._job.worker,
            self._variables,
            HostsHere(self.hosts, self.namespaces),
            self._job.contained,
            log=Path(self._job.logs) / "fork_server.log",
        )

    def control_socket(self) -> ControlSocket[Hello]:
        """Open an abstract socket in each network namespace."""
        return host_control_sockets(self.namespaces)

    def check(self) -> None:
        """Do nothing: the hosts need nothing that could end."""

    def sampled(
        self, watched: Sequence[Watched], sampling: Sampling, clock: Clock
    ) -> AbstractContextManager[RunTelemetry]:
        """Sample all hosts by one sampler, for the length of a `with`.

        Args:
            watched: the hosts, and the processes on each.
            sampling: how often, and where the samples go.
            clock: of the session.

        Returns:
            A context manager that gives the telemetry.
        """
        return sampled(watched, sampling, clock)


class EmulatedHosts(LoopbackHosts):
    """Hosts that are network namespaces of a star, whose links are shaped."""

    star: Star

    def _open(self, stack: ExitStack) -> None:
        self.star = stack.enter_context(
            Star(
                [host.address for host in self.hosts],
                congestion_control=self._job.congestion_control,
                dilation=self._job.placement.dilation,
                sites=self._job.sites,
                longest_trains=self._job.placement.waits,
                cards=self._job.placement.cards,
            )
        )
        self.namespaces = list(self.star.namespaces)
        self.addresses = [host.address for host in self.hosts]

    def check(self) -> None:
        """Check the processes that delay packets.

        Raises:
            DdlbenchError: one has ended.
        """
        self.star.backend.check()


def raise_loopback() -> None:
    """Set the sandbox's own loopback interface up; it is down at first."""
    from pyroute2 import IPRoute

    with IPRoute() as network:
        network.link("set", index=1, state="up")
