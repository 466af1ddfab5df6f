"""Two ways to make a link: the kernel's netem, or where it has none, tbf with delayed verdicts and random drops.

In both, tbf gives the rate, of what a host sends and of what it receives. What differs is who delays and loses packets,
which only what a host sends is.
"""

import json
import selectors
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import TracebackType

from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import IoctlEthtool
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import plugins, sched_netem, sched_pfifo

from ddlbench.errors import DdlbenchError
from ddlbench.network.link import Link
from ddlbench.network.netfilter import Forwarding, Rule
from ddlbench.system.namespaces import entered

_ROOT, _DELAY, _QUEUE = 0x10000, 0x100000, 0x200000
_TSO = "tcp-segmentation-offload"
_GROUPING = ("generic-segmentation-offload", "generic-receive-offload")
BYTES_PER_MS = 125  # of one Mbit/s
_COMMAND_TIMEOUT_S = 10.0
FASTEST_MBIT = 2000  # that is made at full speed; what is faster is only ever made slowed down
_NETEM_FASTEST = 2**32 - 1  # bytes a second: a frame takes it 0.4 microseconds
_NETEM_MOST_JITTER_MS = 2_000  # it counts nanoseconds in 32 bits

# pyroute2 0.9 leaves netem's rate in the request after making an option of it, unlike tbf's; the kernel refuses that.
sched_netem.fix_request = lambda request: request.pop("rate", None)
# It does not know this one, whose only parameter is the same, but in bytes.
plugins["bfifo"] = sched_pfifo


@dataclass(frozen=True)
class Egress:
    """An interface that sends over a link: its number, and a netlink socket of its namespace."""

    netlink: IPRoute
    index: int


@dataclass(frozen=True)
class Port:
    """Where a link enters a router: its interface `name` there, and the end that sends: host or another router.

    router, namespace: the namespaces of both ends. netlink, device, index: the sending end's interface. back: the
    router's, which sends to a host as fast as the host may; None between routers, where each direction is a link.
    """

    router: int
    name: str
    namespace: int
    netlink: IPRoute
    device: str
    index: int
    back: Egress | None = None

    @property
    def egresses(self) -> tuple[Egress, ...]:
        """What sends over the link: out and, where it leads to a host, back."""
        out = Egress(self.netlink, self.index)
        return (out, self.back) if self.back else (out,)


def train_bytes(link: Link) -> int:
    """How many bytes of TCP segments the kernel may handle as one packet: a quarter millisecond's, within limits."""
    return int(min(65536, max(16384, link.bandwidth_mbit * BYTES_PER_MS * 0.25)))


def burst_bytes(link: Link) -> int:
    """What tbf lets pass at once: one train of segments, and what a late timer owes.

    Less and the rate is not reached; more would carry part of each gradient for free. Where packets are delayed, timers
    come later, as the kernel is busy letting packets go, and a tenth of the latency is no great gift.
    """
    late_ms = min(1.5, max(0.25, link.latency_ms / 10))
    return int(train_bytes(link) + link.bandwidth_mbit * BYTES_PER_MS * late_ms)


def queue_bytes(link: Link) -> int:
    """A queue of one round trip and 50 ms, so that TCP fills the link and is not dropped early."""
    return int(link.bandwidth_mbit * BYTES_PER_MS * (2 * link.latency_ms + 50)) + burst_bytes(link)


def sized_by(link: Link, dilation: float) -> Link:
    """The link that bursts, trains and queues of a dilated one are sized by: itself, as bytes know no time.

    One that is too fast to be made at full speed has no such counterpart: bursts for its rate would carry megabytes for
    free (3 MB at 100 Gbit/s), where what a late timer owes is a matter of the rate that is made.
    """
    return link if link.bandwidth_mbit <= FASTEST_MBIT else link.dilated(dilation)


class Backend(AbstractContextManager["Backend"]):
    """What makes links: the rate by tbf here, latency and loss by a subclass."""

    name: str

    def __init__(self, ports: list[Port], dilation: float = 1.0) -> None:
        self.ports = ports
        self.dilation = dilation
        self.links: list[Link] | None = None

    def shape(self, links: Sequence[Link] | None) -> None:
        """Give every port its link, dilated, or open all.

        Bytes know no time: bursts, trains and queues are the same however slowly time runs (but see `sized_by`). As a
        packet may pass several links, a train is as short as the slowest of them wants it, and whole only where none
        loses packets.
        """
        _set_offload(self.ports, links)
        if links is not None:
            train = min(train_bytes(sized_by(link, self.dilation)) for link in links)
            for port, link in zip(self.ports, links, strict=True):
                port.netlink.link("set", index=port.index, gso_max_size=train)
                for egress in port.egresses:
                    self._limit(egress, link)
        elif self.links is not None:
            for port in self.ports:
                for egress in port.egresses:
                    egress.netlink.tc("del", index=egress.index, handle=_ROOT, parent=TC_H_ROOT)
                port.netlink.link("set", index=port.index, gso_max_size=65536)
        self._delay_and_lose(links)
        self.links = None if links is None else list(links)

    def _limit(self, egress: Egress, link: Link) -> None:
        sized = sized_by(link, self.dilation)
        egress.netlink.tc(
            "replace",
            "tbf",
            index=egress.index,
            handle=_ROOT,
            rate=link.dilated(self.dilation).bandwidth_mbit * 1e6 / 8,
            burst=burst_bytes(sized),
            limit=queue_bytes(sized),
        )

    def check(self) -> None:
        """Raise DdlbenchError if a process that the links need has died."""

    def _delay_and_lose(self, links: Sequence[Link] | None) -> None:
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Netem(Backend):
    """Latency and loss by the kernel's network emulator, below tbf.

    It takes tbf's own queue's place and has none that counts bytes: what waits for the rate waits below it.
    """

    name = "tbf+netem"

    def _delay_and_lose(self, links: Sequence[Link] | None) -> None:
        for port, asked in zip(self.ports, links or [], strict=links is not None):
            link = asked.dilated(self.dilation)
            if link.jitter_ms > _NETEM_MOST_JITTER_MS:
                raise DdlbenchError(
                    f"netem makes a jitter of {_NETEM_MOST_JITTER_MS:g} ms at most, not {link.jitter_ms:g} ms (time "
                    "dilation included): ask for less, or for less dilation"
                )
            port.netlink.tc(
                "replace",
                "netem",
                index=port.index,
                parent=_ROOT + 1,
                handle=_DELAY,
                delay=round(link.latency_ms * 1000),
                jitter=round(link.jitter_ms * 1000),
                # With a rate, however high, netem keeps the order of packets that jitter would change.
                **({"rate": _NETEM_FASTEST} if link.jitter_ms else {}),
                loss=link.loss_percent,
                limit=max(10_000, queue_bytes(link) // 100),
            )
            port.netlink.tc(
                "replace",
                "bfifo",
                index=port.index,
                parent=_DELAY + 1,
                handle=_QUEUE,
                limit=queue_bytes(sized_by(asked, self.dilation)),
            )


class DelayedVerdicts(Backend):
    """Latency by a process that delays verdicts (NFQUEUE), loss by nf_tables, both where a router forwards."""

    name = "tbf+nfqueue"

    def __init__(self, ports: list[Port], dilation: float = 1.0) -> None:
        super().__init__(ports, dilation)
        with ExitStack() as stack:
            self._forwardings: dict[int, Forwarding] = {}
            for router in dict.fromkeys(port.router for port in ports):
                with entered(router):
                    self._forwardings[router] = Forwarding()
                stack.callback(self._forwardings[router].close)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ddlbench.network.delay", *(str(port.router) for port in ports)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=list(self._forwardings),
                text=True,
            )
            stack.callback(self.process.wait)
            stack.callback(self.process.kill)
            self._await_answer()
            self._stack = stack.pop_all()

    def check(self) -> None:
        if self.process.poll() is not None:
            raise DdlbenchError(
                f"the delay process (ddlbench.network.delay) died with status {self.process.returncode}; "
                "the links are dead since then, and what was in flight does not count"
            )

    def _delay_and_lose(self, links: Sequence[Link] | None) -> None:
        for forwarding in self._forwardings.values():
            forwarding.replace([])
        if links is None:
            return
        dilated = [link.dilated(self.dilation) for link in links]
        self._send([(round(link.latency_ms * 1e6), round(link.jitter_ms * 1e6)) for link in dilated])
        rules: dict[int, list[Rule]] = {router: [] for router in self._forwardings}
        for number, (port, link) in enumerate(zip(self.ports, dilated, strict=True)):
            queue = number if link.latency_ms > 0 else None
            rules[port.router].append(Rule(port.name, link.loss_percent / 100, queue))
        for router, forwarding in self._forwardings.items():
            forwarding.replace(rules[router])

    def _send(self, delays_ns: list[tuple[int, int]]) -> None:
        self.check()
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(delays_ns) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.process.wait()
            self.check()
        self._await_answer()

    def _await_answer(self) -> None:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            answered = selector.select(_COMMAND_TIMEOUT_S)
        if not answered or self.process.stdout.readline() != "ok\n":
            self.process.kill()
            self.process.wait()
            self.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def choose_backend(ports: list[Port], dilation: float) -> Backend:
    """The first backend that this kernel can do, found by trying."""
    return Netem(ports, dilation) if _has_netem(ports[0]) else DelayedVerdicts(ports, dilation)


def _has_netem(port: Port) -> bool:
    try:
        port.netlink.tc("add", "netem", index=1, handle=_DELAY, delay=1000)
    except NetlinkError:
        return False
    port.netlink.tc("del", index=1, handle=_DELAY, parent=TC_H_ROOT)
    return True


def _set_offload(ports: Sequence[Port], links: Sequence[Link] | None) -> None:
    """Let the kernel handle trains of segments as one packet; not where packets are lost: a drop would take them all.

    What sends over a link takes its trains apart (no TSO): only then does the router take them in by NAPI, on one core
    at a time. Otherwise it takes each in on whichever core sends or runs a timer, and packets overtake each other. An
    open link has no queue that would hold back what does not fit into NAPI's ring of 256 frames: what TCP lost there
    would leave it with small windows on the next link; so there trains stay whole.
    """
    whole = links is None or not any(link.is_lossy for link in links)
    grouping = dict.fromkeys(_GROUPING, whole)
    for port in ports:
        _set_flags(port.router, port.name, {_TSO: whole, **grouping})
    for port in ports:
        _set_flags(port.namespace, port.device, {_TSO: links is None, **grouping})


def _set_flags(namespace: int, device: str, flags: dict[str, bool]) -> None:
    with entered(namespace):
        ethtool = IoctlEthtool(device)
    for flag, value in flags.items():
        ethtool.set_offload_flag(flag, int(value))
    ethtool.close()
