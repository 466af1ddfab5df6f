"""Two ways to make a link: the kernel's netem, or where it has none, tbf with delayed verdicts and random drops.

In both, tbf gives the rate. What differs is who delays and loses packets. Both act on what a host sends.
"""

import json
import selectors
import subprocess
import sys
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import TracebackType

from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import IoctlEthtool
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT

from ddlbench.errors import DdlbenchError
from ddlbench.network.link import Link
from ddlbench.network.namespaces import entered
from ddlbench.network.netfilter import Forwarding, Rule

_ROOT, _DELAY = 0x10000, 0x100000
_OFFLOADS = ("tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload")
_BYTES_PER_MS = 125  # of one Mbit/s
_COMMAND_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Port:
    """Where a host meets the router: the router's interface, the host's namespace, its netlink socket and `eth0`."""

    name: str
    namespace: int
    netlink: IPRoute
    index: int


def train_bytes(link: Link) -> int:
    """How many bytes of TCP segments the kernel may handle as one packet: a quarter millisecond's, within limits."""
    return int(min(65536, max(16384, link.bandwidth_mbit * _BYTES_PER_MS * 0.25)))


def burst_bytes(link: Link) -> int:
    """What tbf lets pass at once: one train of segments, and what a late timer owes.

    Less and the rate is not reached; more would carry part of each gradient for free. Where packets are delayed, timers
    come later, as the kernel is busy letting packets go, and a tenth of the latency is no great gift.
    """
    late_ms = min(1.5, max(0.25, link.latency_ms / 10))
    return int(train_bytes(link) + link.bandwidth_mbit * _BYTES_PER_MS * late_ms)


def queue_bytes(link: Link) -> int:
    """A queue of one round trip and 50 ms, so that TCP fills the link and is not dropped early."""
    return int(link.bandwidth_mbit * _BYTES_PER_MS * (2 * link.latency_ms + 50)) + burst_bytes(link)


class Backend(AbstractContextManager["Backend"]):
    """What makes links: the rate by tbf here, latency and loss by a subclass."""

    name: str

    def __init__(self, ports: list[Port], dilation: float = 1.0) -> None:
        self.ports = ports
        self.dilation = dilation
        self.link: Link | None = None

    def shape(self, link: Link | None) -> None:
        """Give every host `link`, dilated, or an open one.

        Bytes know no time: bursts, trains and queues are the same however slowly time runs.
        """
        dilated = link and link.dilated(self.dilation)
        for port in self.ports:
            _set_offload(port, link is None or link.loss_percent == 0)
            if link is not None and dilated is not None:
                port.netlink.link("set", index=port.index, gso_max_size=train_bytes(link))
                port.netlink.tc(
                    "replace",
                    "tbf",
                    index=port.index,
                    handle=_ROOT,
                    rate=dilated.bandwidth_mbit * 1e6 / 8,
                    burst=burst_bytes(link),
                    limit=queue_bytes(link),
                )
            elif self.link is not None:
                port.netlink.tc("del", index=port.index, handle=_ROOT, parent=TC_H_ROOT)
                port.netlink.link("set", index=port.index, gso_max_size=65536)
        self._delay_and_lose(dilated)
        self.link = link

    def check(self) -> None:
        """Raise DdlbenchError if a process that the links need has died."""

    def _delay_and_lose(self, link: Link | None) -> None:
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Netem(Backend):
    """Latency and loss by the kernel's network emulator, below tbf."""

    name = "tbf+netem"

    def _delay_and_lose(self, link: Link | None) -> None:
        if link is None:
            return
        for port in self.ports:
            port.netlink.tc(
                "replace",
                "netem",
                index=port.index,
                parent=_ROOT + 1,
                handle=_DELAY,
                delay=round(link.latency_ms * 1000),
                loss=link.loss_percent,
                limit=max(10_000, queue_bytes(link) // 100),
            )


class DelayedVerdicts(Backend):
    """Latency by a process that delays verdicts (NFQUEUE), loss by nf_tables, both where the router forwards."""

    name = "tbf+nfqueue"

    def __init__(self, ports: list[Port], dilation: float = 1.0) -> None:
        super().__init__(ports, dilation)
        with ExitStack() as stack:
            self._forwarding = Forwarding()
            stack.callback(self._forwarding.close)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ddlbench.network.delay", str(len(ports))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
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

    def _delay_and_lose(self, link: Link | None) -> None:
        self._forwarding.replace([])
        if link is None:
            return
        self._send([round(link.latency_ms * 1e6)] * len(self.ports))
        self._forwarding.replace(
            [
                Rule(port.name, link.loss_percent / 100, number if link.latency_ms > 0 else None)
                for number, port in enumerate(self.ports)
            ]
        )

    def _send(self, delays_ns: list[int]) -> None:
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


def _set_offload(port: Port, offload: bool) -> None:
    """Segmentation offload on both ends: off where packets are lost, or one drop would take a whole train of them."""
    with entered(port.namespace):
        inner = IoctlEthtool("eth0")
    outer = IoctlEthtool(port.name)
    for device in (inner, outer):
        for flag in _OFFLOADS:
            device.set_offload_flag(flag, int(offload))
        device.close()
