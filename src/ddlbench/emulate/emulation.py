"""What is emulated and what came of it: plain data that goes into the sandbox and comes out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddlbench.emulate.contained import Image
from ddlbench.network.hosts import Host
from ddlbench.network.link import Link
from ddlbench.network.sites import Sites
from ddlbench.protocol.tolerances import Tolerances

# The default configuration's; an installed wheel has no configuration.
TOLERANCES = Tolerances(
    rate_percent=2.0, rtt_percent=2.0, rtt_ms=0.5, loss_points=0.3, others_percent=25.0, share_percent=25.0
)
# Exit codes, as of env(1) and of shells.
OWN_FAILURE, NOT_EXECUTABLE, NOT_FOUND, OF_SIGNALS = 125, 126, 127, 128


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """Hosts, what connects them, and the command that each of them runs.

    Attributes:
        command: its argv.
        hosts: in order; the first is the one that frameworks meet at.
        dilation: how much slower the hosts' time runs.
        link: of every host; None: the hosts are on sites.
        sites: as of `network.sites.Sites.as_dict`; None: every host has the link.
        grace_s: how long the other hosts may go on after one has failed.
        shown_bytes: how much of a host's output is shown at most.
        unset: environment variables that are ours, which the command does not get.
        series: the path of the file for what each host does over time; empty: none is written.
        image: of the containers that the command runs in; None: it runs in none.
    """

    command: Sequence[str]
    hosts: Sequence[Host]
    dilation: float
    link: Link | None
    sites: Mapping[str, object] | None
    grace_s: float
    shown_bytes: int
    unset: Sequence[str]
    series: str = ""
    image: Image | None = None

    @property
    def wires(self) -> Link | Sites:
        """What connects the hosts, not dilated."""
        if self.sites is not None:
            return Sites.from_dict(self.sites)
        assert self.link is not None
        return self.link


@dataclass(frozen=True)
class Task:
    """An emulation, and the file (a FIFO) from which the supervisor reads signals that are meant for the commands."""

    emulation: Emulation
    signals: str


@dataclass(frozen=True, kw_only=True)
class HostEnd:
    """How the command ended on a host, and what it took. Times are of the wall clock, not divided by the dilation.

    Attributes:
        name: of the host.
        status: its exit status; negative: the signal that ended it.
        was_ended: whether we ended it, because another host had failed or somebody asked for it.
        wall_s: from its start to its end.
        cpu_s: of the command and all that it has waited for, and of processes that it left behind; None: not measured,
            as it ran in a container.
        sent_bytes: over TCP, in whole frames.
        received_bytes: over TCP, in whole frames.
        retransmits: TCP segments that were sent again.
        output_bytes: that it printed, also those that were not shown.
        left: the names of the processes that it left behind; they were killed.
    """

    name: str
    status: int
    was_ended: bool
    wall_s: float
    cpu_s: float | None
    sent_bytes: int
    received_bytes: int
    retransmits: int
    output_bytes: int
    left: Sequence[str]

    @property
    def exit_code(self) -> int:
        """Its exit status as a shell reports it."""
        return OF_SIGNALS - self.status if self.status < 0 else self.status


@dataclass(frozen=True)
class Emulated:
    """What came of an emulation.

    Attributes:
        hosts: how each ended.
        signal: what somebody ended all commands with; None: nobody did.
        backend: what made the links.
        before: what the links were measured to be before the command.
        after: the same after it; None: they were not measured, or were out of tolerance.
        drifted: what was wrong with the links after it; None: nothing, or not measured.
        divided_between: what divides the cores that hosts share; None: none is shared.
        burst_percent: of each host, what bursts of CPU got of its share before the command; None: it has its cores to
            itself, or that is not known.
    """

    hosts: Sequence[HostEnd]
    signal: int | None
    backend: str
    before: Mapping[str, object]
    after: Mapping[str, object] | None
    drifted: str | None
    divided_between: str | None = None
    burst_percent: Sequence[float | None] = ()

    @property
    def exit_code(self) -> int:
        """The worst exit code of the hosts that ended by themselves; that of the signal, or of our own failure."""
        if self.signal is not None:
            return OF_SIGNALS + self.signal
        own = [host.exit_code for host in self.hosts if not host.was_ended]
        worst = max(own or [host.exit_code for host in self.hosts])
        return worst or (OWN_FAILURE if self.drifted else 0)
