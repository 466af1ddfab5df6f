"""The interface between a worker group and its hosts: emulated ones, this machine's loopback, or nodes of a cluster."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ddlbench.launch.control_socket import ControlSocket
from ddlbench.launch.starter import Starter
from ddlbench.network.hosts import Host
from ddlbench.network.star import Star
from ddlbench.protocol.agent_messages import Binding, Sampling
from ddlbench.protocol.messages import Hello
from ddlbench.system.clock import Clock
from ddlbench.telemetry.telemetry import RunTelemetry, Watched


class Hosts(Protocol):
    """The hosts of one worker group after another.

    Attributes:
        hosts: their cores, memory and addresses.
        addresses: of the hosts, as the members reach them.
        namespaces: network namespaces, by descriptor (None: that of the supervisor, or another machine's).
        bindings: of each host, what each of its workers has of it; empty: the host's own cores and GPU.
        ports: of each host, the first of those that its members listen at; empty: the usual ones.
        facts: of each host, for the records.
        star: the emulated network, if there is one.
        provenance: what a record says of the hosts besides.
    """

    @property
    def hosts(self) -> Sequence[Host]: ...

    @property
    def addresses(self) -> Sequence[str]: ...

    @property
    def namespaces(self) -> Sequence[int | None]: ...

    @property
    def ports(self) -> Sequence[int]: ...

    @property
    def bindings(self) -> Sequence[Sequence[Binding]]: ...

    @property
    def facts(self) -> Sequence[Mapping[str, object]]: ...

    @property
    def star(self) -> Star | None: ...

    @property
    def provenance(self) -> Mapping[str, object]: ...

    def starter(self, runtime: str) -> Starter:
        """Make what starts members; the caller closes it.

        Args:
            runtime: in which they start, a key of the job's environments.

        Returns:
            A starter for members on all hosts.

        Raises:
            DdlbenchError: a node's agent has failed.
        """

    def control_socket(self) -> ControlSocket[Hello]:
        """Open the socket that members connect to; the caller closes it."""

    def check(self) -> None:
        """Check what the hosts need while a group runs.

        Raises:
            DdlbenchError: something that they need has ended.
        """

    def sampled(
        self, watched: Sequence[Watched], sampling: Sampling, clock: Clock
    ) -> AbstractContextManager[RunTelemetry]:
        """Sample the hosts for the length of a `with`.

        Args:
            watched: the hosts, and the processes on each.
            sampling: how often, and where the samples go.
            clock: of the session.

        Returns:
            A context manager that gives the telemetry.
        """
