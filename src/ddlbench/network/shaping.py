"""Two ways to make a link: with the kernel's netem or, if the kernel has none, with delayed verdicts and random drops.

In both, tbf limits the rate of what a host sends and of what it receives. They differ in what delays and drops packets.
Only packets that a host sends are delayed and dropped.
"""

import json
import selectors
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import plugins, sched_netem, sched_pfifo

from ddlbench.errors import DdlbenchError
from ddlbench.network.link import Link
from ddlbench.network.netfilter import Forwarding, Rule
from ddlbench.network.ports import Egress, Port, set_offload
from ddlbench.network.sizes import (
    LONGEST_TRAIN,
    burst_bytes,
    queue_bytes,
    sizing_link,
    train_bytes,
)
from ddlbench.system.namespaces import entered

_ROOT, _DELAY, _QUEUE = 0x10000, 0x100000, 0x200000
_COMMAND_TIMEOUT_S = 10.0
_NETEM_FASTEST = 2**32 - 1  # bytes a second: 0.4 microseconds for a frame
_NETEM_MOST_JITTER_MS = 2_000  # it counts nanoseconds in 32 bits

# pyroute2 0.9 makes an option of netem's rate and leaves it in the request too; the kernel refuses that.
sched_netem.fix_request = lambda request: request.pop("rate", None)
# pyroute2 does not know bfifo, whose only parameter is pfifo's, but in bytes.
plugins["bfifo"] = sched_pfifo


class Backend(AbstractContextManager["Backend"]):
    """A way to make links: the rate is limited here with tbf; a subclass adds latency and loss.

    Attributes:
        name: the way, for records: `tbf+netem` or `tbf+nfqueue`.
        ports: the ends of all links.
        dilation: the time dilation.
        links: the link of each port, not dilated; None while they are open.
        longest_trains: trains and bursts are as long as can be, so that moving bytes costs the least CPU time.
        steered: one core receives all that comes over a link, so that no train needs to be split.
        pids: the ids of processes that handle the links' packets.
    """

    name: str
    pids: Sequence[int] = ()

    def __init__(self, ports: list[Port], dilation: float = 1.0) -> None:
        self.ports = ports
        self.dilation = dilation
        self.longest_trains = False
        self.steered = False
        self.links: list[Link] | None = None

    def shape(self, links: Sequence[Link] | None) -> None:
        """Give every port its link, dilated, or open all links.

        Bursts, trains and queues are sized in bytes, which time dilation does not change (but see `sizing_link`). A
        packet may pass several links. So trains are as short as the slowest link needs, and are whole only if no link
        loses packets.

        Args:
            links: one for each port, not dilated; None: remove the limits.
        """
        set_offload(self.ports, links, steered=self.steered)
        if links is not None:
            train = min(map(self.train, links))
            for port, link in zip(self.ports, links, strict=True):
                port.netlink.link("set", index=port.index, gso_max_size=train)
                for egress in port.egresses:
                    self._limit(egress, link)
        elif self.links is not None:
            for port in self.ports:
                for egress in port.egresses:
                    egress.netlink.tc("del", index=egress.index, handle=_ROOT, parent=TC_H_ROOT)
                port.netlink.link("set", index=port.index, gso_max_size=LONGEST_TRAIN)
        self._delay_and_lose(links)
        self.links = None if links is None else list(links)

    def train(self, link: Link) -> int:
        """Choose the longest train of a link.

        Args:
            link: what is asked for, not dilated.

        Returns:
            Bytes.
        """
        return LONGEST_TRAIN if self.longest_trains else train_bytes(sizing_link(link, self.dilation))

    def _limit(self, egress: Egress, link: Link) -> None:
        sized = sizing_link(link, self.dilation)
        egress.netlink.tc(
            "replace",
            "tbf",
            index=egress.index,
            handle=_ROOT,
            rate=link.dilated(self.dilation).bandwidth_mbit * 1e6 / 8,
            burst=burst_bytes(sized, longest_trains=self.longest_trains),
            limit=queue_bytes(sized, longest_trains=self.longest_trains),
        )

    def check(self) -> None:
        """Check that what the links need still works.

        Raises:
            DdlbenchError: a process that they need has died.
        """

    def _delay_and_lose(self, links: Sequence[Link] | None) -> None:
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Netem(Backend):
    """Latency and loss by the kernel's network emulator, below tbf.

    netem takes the place of tbf's own queue, and cannot limit its length in bytes. So packets that wait for the rate
    wait in a bfifo below it.
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
                # Jitter would reorder packets; with a rate, however high, netem keeps their order.
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
                limit=queue_bytes(sizing_link(asked, self.dilation), longest_trains=self.longest_trains),
            )


class DelayedVerdicts(Backend):
    """Latency by a process that delays verdicts (NFQUEUE), loss by nf_tables; both act where a router forwards."""

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
            self.pids = (self.process.pid,)
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
    """Choose netem if this kernel has it, else delayed verdicts.

    Args:
        ports: the ends of all links.
        dilation: the time dilation.

    Returns:
        The backend, whose links are open.

    Raises:
        DdlbenchError: the delay process died at once, or this kernel cannot queue packets for verdicts either.
    """
    if _has_netem(ports[0]):
        return Netem(ports, dilation)
    try:
        return DelayedVerdicts(ports, dilation)
    except OSError as error:
        raise DdlbenchError(
            "this kernel cannot delay packets: it has no netem (as root:  modprobe sch_netem), nor what is used then, "
            f"nf_tables with NFQUEUE ({error.strerror or error})"
        ) from error


def _has_netem(port: Port) -> bool:
    try:
        port.netlink.tc("add", "netem", index=1, handle=_DELAY, delay=1000)
    except NetlinkError:
        return False
    port.netlink.tc("del", index=1, handle=_DELAY, parent=TC_H_ROOT)
    return True
