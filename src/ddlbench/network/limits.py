"""The limits of a link: how much this machine forwards, and which queues the kernel and the memory have room for.

The limits of queues follow from the link alone, before anything starts. How much the machine forwards is measured, once
for each length of trains, between the hosts themselves: all send to the next over TCP at once, on open links, with a
process on each core. A link that loses packets has no trains; a rate below this limit may still be too much for it,
which its check detects (`ddlbench.network.verify`).
"""

import os
import selectors
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from math import ceil
from multiprocessing import get_context
from time import monotonic, sleep

from psutil import virtual_memory

from ddlbench.errors import ConfigError
from ddlbench.network.delay import QUEUE_PACKETS
from ddlbench.network.link import Link
from ddlbench.network.ports import Port
from ddlbench.network.shaping import Backend, Netem
from ddlbench.network.sizes import BYTES_PER_MS, LONGEST_TRAIN, queue_bytes, sizing_link, slowest_mbit
from ddlbench.network.star import Star
from ddlbench.network.traffic import FRAME
from ddlbench.system.namespaces import entered

# The queues' share of the available memory; the hosts' own processes and TCP's buffers need the rest.
QUEUE_SHARE = 0.25
TBF_MOST_MBIT = (2**32 - 1) * 8e-6  # it counts bytes a second in 32 bits
TBF_LONGEST_QUEUE_BYTES = 2**32 - 1
NETEM_LONGEST_MS = (2**32 - 1) * 64e-6  # it counts steps of 64 ns in 32 bits
_SETTLE_S, _WINDOW_S, _WINDOWS = 0.06, 0.03, 5
_TRIES, _PAUSE_S = 3, 0.2
_CHUNK_BYTES = 1 << 18
_CONNECT_TIMEOUT_S = 10.0


class LinkRefused(ConfigError):
    """A link that cannot be made on this machine."""


def check_queues(link: Link, *, hosts: int, dilation: float, memory_bytes: int) -> None:
    """Check a link's rate and queues against what a kernel can count, and against the available memory.

    As many bytes are in flight and queued with time dilation as without.

    Args:
        link: what is asked for, not dilated.
        hosts: how many hosts have such a link.
        dilation: the time dilation.
        memory_bytes: what is available on this machine.

    Raises:
        LinkRefused: the link cannot be made; with the limit, and what can be made.
    """
    rate_mbit = link.dilated(dilation).bandwidth_mbit
    if rate_mbit > TBF_MOST_MBIT:
        least = ceil(link.bandwidth_mbit / TBF_MOST_MBIT)
        raise LinkRefused(
            f"{link}: {_made_at(rate_mbit, dilation)}, and the kernel's tbf shapes {TBF_MOST_MBIT:,.0f} Mbit/s at most "
            f"(it counts bytes a second in 32 bits). Set `dilation` to {least} or more, or ask for less."
        )
    sized = sizing_link(link, dilation)
    if rate_mbit < (least_mbit := slowest_mbit(sized)):
        raise LinkRefused(
            f"{link}: {_made_at(rate_mbit, dilation)}, and the kernel's tbf shapes {least_mbit:.2g} Mbit/s at least "
            "(it counts the time of a burst in 32 bits). Ask for more, or for less `dilation`."
        )
    queue = queue_bytes(sized)
    if queue > TBF_LONGEST_QUEUE_BYTES:
        raise LinkRefused(
            f"{link}: a queue of one round trip and 50 ms would be {queue / 1e9:.3g} GB, and the kernel's tbf holds "
            f"{TBF_LONGEST_QUEUE_BYTES / 1e9:.3g} GB at most (32 bits of bytes). Ask for a lower rate or latency: "
            "a larger `dilation` changes neither."
        )
    wanted, share = hosts * (2 * queue + _flight_bytes(link)), int(memory_bytes * QUEUE_SHARE)
    if wanted > share:
        raise LinkRefused(
            f"{link}: what {hosts} hosts have queued at both ends and in flight takes up to {wanted / 1e9:.3g} GB of "
            f"memory, and {share / 1e9:.3g} GB may be used for that ({QUEUE_SHARE:.0%} of the "
            f"{memory_bytes / 1e9:.3g} GB that are available on this machine). Ask for a lower rate or latency, or for "
            "fewer workers: a larger `dilation` changes nothing."
        )


def check_delay(link: Link, backend: Backend) -> None:
    """Check that the backend can make a link's latency at its rate.

    Args:
        link: what is asked for, not dilated.
        backend: what makes the links.

    Raises:
        LinkRefused: it cannot; with the limit, and what can be made.
    """
    if isinstance(backend, Netem):
        latency_ms = link.dilated(backend.dilation).latency_ms
        if latency_ms > NETEM_LONGEST_MS:
            raise LinkRefused(
                f"{link}: with a time dilation of {backend.dilation:g} it is made with {latency_ms:,.0f} ms, and the "
                f"kernel's netem delays by {NETEM_LONGEST_MS:,.0f} ms at most (it counts 64 ns in 32 bits). "
                "Ask for less latency or less `dilation`."
            )
        return
    if (packets := _flight_bytes(link) // FRAME) > QUEUE_PACKETS:
        raise LinkRefused(
            f"{link}: {packets:,} frames of {FRAME:,} bytes are in flight at a time, and the queue of delayed "
            f"verdicts (NFQUEUE) is set to hold {QUEUE_PACKETS:,}; a kernel with netem has no such limit. Ask for a "
            f"lower rate or latency (at this rate at most {link.latency_ms * QUEUE_PACKETS / packets:.4g} ms): "
            "a larger `dilation` changes nothing."
        )


class Capacity:
    """How much this machine forwards between the hosts of a star, as far as it has been measured."""

    def __init__(self, star: Star) -> None:
        self.star = star
        self._known_mbit: dict[int, float] = {}  # by the length of trains

    def check(self, link: Link, *, senders: int | None = None) -> None:
        """Check that the machine forwards what hosts can send over a link.

        If that is not known, it is measured. Then the links must be open, and nothing else may be sent over them.

        Args:
            link: what is asked for, not dilated.
            senders: how many hosts send at once; None: all.

        Raises:
            LinkRefused: the machine does not; with what it forwards, and what can be made.
        """
        rate_mbit = link.dilated(self.star.dilation).bandwidth_mbit
        senders = senders or len(self.star.addresses)
        train = self.star.backend.train(link)
        if self.is_known(link, senders=senders):
            return
        for _ in range(_TRIES):  # a busy machine may disturb the measurement, never improve it
            found = forwarded_mbit(self.star, train)
            self._known_mbit[train] = max(found, self._known_mbit.get(train, 0.0))
            if found >= senders * rate_mbit:
                return
            sleep(_PAUSE_S)
        limit_mbit = self._known_mbit[train]
        least = ceil(senders * link.bandwidth_mbit / limit_mbit)
        raise LinkRefused(
            f"{link}: {_made_at(rate_mbit, self.star.dilation)} for {senders} hosts at once, "
            f"{senders * rate_mbit:,.0f} Mbit/s in all, and this machine forwards {limit_mbit:,.0f} Mbit/s between "
            "emulated hosts (measured just now: TCP over open links, all hosts at once, trains of "
            f"{train:,} bytes, the best of {_TRIES * _WINDOWS} moments). Set `dilation` to {least} or more, or ask for "
            f"at most {limit_mbit * self.star.dilation / senders:,.0f} Mbit/s a host."
        )

    def is_known(self, link: Link, *, senders: int | None = None) -> bool:
        """Find out whether enough was forwarded before, so that `check` needs no measurement.

        Args:
            link: what is asked for, not dilated.
            senders: how many hosts send at once; None: all.

        Returns:
            Whether an earlier measurement, with equal or shorter trains, reached the link's rate for all senders.
        """
        # Longer trains are never slower, so what was measured with shorter ones counts too.
        need_mbit = (senders or len(self.star.addresses)) * link.dilated(self.star.dilation).bandwidth_mbit
        train = self.star.backend.train(link)
        return any(known >= need_mbit for length, known in self._known_mbit.items() if length <= train)


def check_link(capacity: Capacity, link: Link, *, hosts: int, senders: int) -> None:
    """Check all limits of a link.

    Args:
        capacity: of the star, whose links are open.
        link: what is asked for, not dilated.
        hosts: how many have such a link.
        senders: how many of them send at once.

    Raises:
        LinkRefused: it cannot be made; with the limit, and what can be made.
    """
    check_queues(link, hosts=hosts, dilation=capacity.star.dilation, memory_bytes=virtual_memory().available)
    check_delay(link, capacity.star.backend)
    capacity.check(link, senders=senders)


def forwarded_mbit(star: Star, train: int) -> float:
    """Measure how much the routers forward while every host sends to the next over TCP as fast as it can.

    Args:
        star: the hosts; their links must be open.
        train: the longest train of segments, in bytes.

    Returns:
        The rate of all hosts together in the best moment, in Mbit/s.
    """
    ports = star.backend.ports[: len(star.addresses)]
    with ExitStack() as stack:
        _set_trains(ports, train)
        stack.callback(_set_trains, ports, LONGEST_TRAIN)
        out, into = _ring(star, stack)
        stop, running = os.pipe()
        cores = sorted(os.sched_getaffinity(0))[: len(out)]
        children = [
            get_context("fork").Process(
                target=_exchange_on,
                args=(core, out[number :: len(cores)], into[number :: len(cores)], stop, running),
                daemon=True,
            )
            for number, core in enumerate(cores)
        ]
        for child in children:
            child.start()
        os.close(stop)
        try:
            sleep(_SETTLE_S)
            marks = [_forwarded_bytes(ports)]
            for _ in range(_WINDOWS):
                sleep(_WINDOW_S)
                marks.append(_forwarded_bytes(ports))
        finally:
            os.close(running)
        for child in children:
            child.join()
    return max(
        (later - earlier) * 8e-6 / (then - before) for (before, earlier), (then, later) in pairwise(marks)
    )


def _ring(star: Star, stack: ExitStack) -> tuple[list[socket.socket], list[socket.socket]]:
    """Connect each host to the next; the sending end and the receiving end of each host."""
    out, into, listeners = [], [], []
    for namespace, address in zip(star.namespaces, star.addresses, strict=True):
        with entered(namespace):
            listeners.append(stack.enter_context(socket.create_server((address, 0))))
    for host, namespace in enumerate(star.namespaces, 1):
        with entered(namespace):
            address = listeners[host % len(listeners)].getsockname()
            out.append(stack.enter_context(socket.create_connection(address, _CONNECT_TIMEOUT_S)))
    for listener in listeners:
        listener.settimeout(_CONNECT_TIMEOUT_S)
        into.append(stack.enter_context(listener.accept()[0]))
    for endpoint in (*out, *into):
        endpoint.setblocking(False)
    return out, into


def _exchange_on(
    core: int, out: Sequence[socket.socket], into: Sequence[socket.socket], stop: int, running: int
) -> None:
    """`_exchange` on a core; `running` is the other end of the pipe, which only the parent may keep open."""
    os.close(running)
    os.sched_setaffinity(0, [core])
    _exchange(out, into, stop)


def _exchange(out: Sequence[socket.socket], into: Sequence[socket.socket], stop: int) -> None:
    """Send and receive until the other end of the pipe `stop` is closed."""
    chunk, buffer = bytes(_CHUNK_BYTES), bytearray(_CHUNK_BYTES)
    with selectors.DefaultSelector() as selector:
        for each in out:
            selector.register(each, selectors.EVENT_WRITE, each)
        for each in into:
            selector.register(each, selectors.EVENT_READ, each)
        selector.register(stop, selectors.EVENT_READ)
        while True:
            for key, events in selector.select():
                if key.fd == stop:
                    return
                endpoint: socket.socket = key.data
                with suppress(BlockingIOError):
                    if events & selectors.EVENT_WRITE:
                        endpoint.send(chunk)
                    else:
                        endpoint.recv_into(buffer)


def _set_trains(ports: Sequence[Port], train: int) -> None:
    for port in ports:
        port.netlink.link("set", index=port.index, gso_max_size=train)


def _forwarded_bytes(ports: Sequence[Port]) -> tuple[float, int]:
    """Return the time, and how many bytes the hosts have received until then."""
    found = [port.netlink.get_links(port.index)[0].get_attr("IFLA_STATS64") for port in ports]
    return monotonic(), sum(each["rx_bytes"] for each in found)


def _flight_bytes(link: Link) -> int:
    return int(link.bandwidth_mbit * BYTES_PER_MS * link.latency_ms)


def _made_at(rate_mbit: float, dilation: float) -> str:
    dilated = f"with a time dilation of {dilation:g} " if dilation > 1 else ""
    return f"{dilated}it is made with {rate_mbit:{',.0f' if rate_mbit >= 1 else '.2g'}} Mbit/s"
