"""Sending over links, and counting what passes: the checks of a star and of sites share this.

Rates are those of whole frames on the wire (1,514 bytes for 1,472 of payload), however the kernel groups frames.
"""

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from selectors import EVENT_WRITE, DefaultSelector
from statistics import median
from time import monotonic, sleep

from ddlbench.network.link import Link
from ddlbench.network.ports import Port
from ddlbench.system.namespaces import entered

UDP_SEGMENT, UDP_GRO = 103, 104
PAYLOAD, _HEADERS = 1472, 42
FRAME = PAYLOAD + _HEADERS
LOSS_PAYLOAD = 64
GRACE_S = 2.0
_AT_ONCE = 50  # small packets, which every queue holds
# Together the senders on a link queue this much, so that it stays busy while this process has no core.
_QUEUED_S, _QUEUED_BYTES = 0.04, 150_000  # the bytes are those of one socket
_SETTLE_S = 0.05
# A train's share of what passes in a part of the window. Longer trains blur where the part ends; shorter ones would be
# too many for this process.
_TRAIN_SHARE = 0.01
_SPARE, _MOST_PACKETS = 3, 1000


@dataclass(frozen=True)
class Effort:
    """How long a link is measured.

    Attributes:
        window_s: how long its rate is measured.
        windows: the parts of this time. The median of the parts counts, so that a moment in which this process has no
            core does not.
        loss_packets: how many packets are sent to measure its loss.
    """

    window_s: float
    windows: int
    loss_packets: int


FULL = Effort(window_s=0.2, windows=9, loss_packets=20_000)
BRIEF = Effort(window_s=0.06, windows=3, loss_packets=4_000)  # for a link that was in tolerance before
LONG = Effort(window_s=1.0, windows=5, loss_packets=20_000)  # for a link that was out of tolerance before


def udp_socket(namespace: int, address: str, port: int) -> socket.socket:
    """Open a non-blocking UDP socket.

    Args:
        namespace: the network namespace, a file descriptor.
        address: what it is bound to; empty: all addresses.
        port: what it is bound to; 0: a free one.

    Returns:
        The socket, which the caller closes.
    """
    with entered(namespace):
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.bind((address, port))
    endpoint.setblocking(False)
    return endpoint


def discarding(endpoint: socket.socket, *, trains: bool) -> socket.socket:
    """Let a socket that is never read receive and drop all packets.

    Args:
        endpoint: the socket.
        trains: whether it receives whole trains of packets at once, as TCP does, or each packet alone.

    Returns:
        The same socket.
    """
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    endpoint.setsockopt(socket.IPPROTO_UDP, UDP_GRO, int(trains))
    return endpoint


def senders_needed(link: Link) -> int:
    """Compute how many sockets keep a link busy.

    Args:
        link: as it is made, dilated.

    Returns:
        From 2 to 40.
    """
    return min(40, max(2, ceil(link.bandwidth_mbit * 1e6 / 8 * _QUEUED_S / _QUEUED_BYTES)))


def packets_needed(wanted: int, link: Link, *, crossings: int) -> int:
    """Compute how many packets are sent over a link so that enough arrive.

    Args:
        wanted: how many are enough.
        link: that loses some of them, or none.
        crossings: how often each crosses such a link: twice, if it is answered.

    Returns:
        If the link loses packets, so many that three times of what is wanted arrives on average, up to a bound.
    """
    if not link.is_lossy:
        return wanted
    arriving = (1 - link.loss_percent / 100) ** crossings
    return min(_MOST_PACKETS, ceil(_SPARE * wanted / arriving))


def rates_mbit(
    senders: Sequence[Sequence[socket.socket]],
    ports: Sequence[Port],
    links: Sequence[Link],
    train_bytes: int,
    effort: Effort,
    *,
    drain_ms: float,
) -> list[float]:
    """Measure the rate of each link while its senders send as fast as they can.

    Where netem delays packets, that fills the queues. They are empty again when this returns.

    Args:
        senders: for each port, connected sockets at its sending end.
        ports: where the links enter their routers.
        links: of the ports, dilated.
        train_bytes: the length of trains at most; they are shorter on slow links.
        effort: how long to measure.
        drain_ms: how long it takes until a full queue is empty.

    Returns:
        The rate of each port in Mbit/s, not divided by the dilation.
    """
    bytes_per_s = [link.bandwidth_mbit * 1e6 / 8 for link in links]
    slowest = min(bytes_per_s)
    window_s = max(effort.window_s, 300 * FRAME / slowest)
    windows = effort.windows if slowest * window_s > effort.windows * 300 * FRAME else 1
    train_of = {}
    for rate, sockets in zip(bytes_per_s, senders, strict=True):
        frames = int(min(train_bytes // FRAME, max(1, rate * window_s / windows * _TRAIN_SHARE / FRAME)))
        for endpoint in sockets:
            endpoint.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PAYLOAD)
            train_of[endpoint] = bytes(frames * PAYLOAD)
    longest_ms = max(link.latency_ms + link.jitter_ms for link in links)
    marks: list[tuple[float, list[int]]] = []
    next_mark = monotonic() + longest_ms / 1000 + _SETTLE_S  # netem delays packets before they are counted
    with watching(train_of, EVENT_WRITE) as ready:
        while len(marks) <= windows:
            if monotonic() >= next_mark:
                marks.append((monotonic(), _sent_payload(ports)))
                next_mark += window_s / windows
            for endpoint in ready(0.001):
                with suppress(BlockingIOError):
                    endpoint.send(train_of[endpoint])
    train_ms = 1000 * window_s / windows * _TRAIN_SHARE
    settled_count(lambda: _sent_payload(ports), longest_ms + train_ms, drain_ms=drain_ms)
    to_mbit = FRAME / PAYLOAD * 8e-6
    return [
        median((b[port] - a[port]) * to_mbit / (end - begin) for (begin, a), (end, b) in pairwise(marks))
        for port in range(len(ports))
    ]


@contextmanager
def watching(
    sockets: Iterable[socket.socket], event: int
) -> Iterator[Callable[[float], list[socket.socket]]]:
    """Watch many sockets; `select` would refuse those whose descriptors are above 1023.

    Args:
        sockets: that are watched.
        event: `selectors.EVENT_READ` or `EVENT_WRITE`.

    Yields:
        A function that waits, for so many seconds at most, until a socket is ready, and returns those that are.
    """
    with DefaultSelector() as selector:
        for each in sockets:
            selector.register(each, event, each)
        yield lambda wait_s: [key.data for key, _ in selector.select(wait_s)]


def send_small_packets(
    senders: Sequence[socket.socket], links: Sequence[Link], packets: int, *, longest_ms: float
) -> None:
    """Send packets of LOSS_PAYLOAD bytes no faster than the slowest link: what a queue drops would count as lost.

    A socket's own limit does not hold it back where netem delays packets: a socket does not answer for those any more.

    Args:
        senders: connected sockets, each on a link of its own.
        links: over which they send, dilated.
        packets: how many each sends.
        longest_ms: how long a packet may be on its way.
    """
    slowest = min(link.bandwidth_mbit for link in links) * 1e6 / 8
    for endpoint in senders:
        endpoint.settimeout(GRACE_S + longest_ms / 1000)
    for sent in range(0, packets, _AT_ONCE):
        count, began = min(_AT_ONCE, packets - sent), monotonic()
        for _ in range(count):
            for endpoint in senders:
                endpoint.send(bytes(LOSS_PAYLOAD))
        sleep(max(0.0, began + count * (LOSS_PAYLOAD + _HEADERS) / slowest - monotonic()))


def settled_count(count: Callable[[], list[int]], longest_ms: float, *, drain_ms: float = 0.0) -> list[int]:
    """Count packets, once none is on its way any more.

    Some workers are never silent: Horovod's ask each other for work. So there is a deadline, until which everything
    else has passed.

    Args:
        count: reads the counters.
        longest_ms: how long a packet may be on its way.
        drain_ms: how long others before it may be, in the queue.

    Returns:
        The last counts, which did not change for `longest_ms`, or are the last within the deadline.
    """
    deadline = monotonic() + (longest_ms + drain_ms) / 1000 + GRACE_S
    latest, before = count(), None
    while latest != before and monotonic() < deadline:
        sleep(0.02 + longest_ms / 1000)
        latest, before = count(), latest
    return latest


def chance_points(loss_percent: float, packets: int) -> float:
    """Compute how far the counted loss may be from the true one by chance, in 99.9 % of all cases.

    Args:
        loss_percent: the true loss.
        packets: how many are counted.

    Returns:
        Percentage points: 3.3 standard deviations of the binomial distribution.
    """
    share = loss_percent / 100
    return 3.3 * 100 * sqrt(share * (1 - share) / packets)


def counters(ports: Sequence[Port], column: int) -> list[int]:
    """Read a column of /proc/net/dev for each port's interface on its router.

    Args:
        ports: where links enter their routers.
        column: 0: bytes received, 1: packets received, 8: bytes sent, 9: packets sent.

    Returns:
        The counts since the interfaces were made, one for each port.
    """
    rows: dict[tuple[int, str], list[str]] = {}
    for router in dict.fromkeys(port.router for port in ports):
        with entered(router), open("/proc/thread-self/net/dev") as file:
            for line in file:
                name, colon, values = line.partition(":")
                if colon:
                    rows[router, name.strip()] = values.split()
    return [int(rows[port.router, port.name][column]) for port in ports]


def _sent_payload(ports: Sequence[Port]) -> list[int]:
    """Bytes of UDP payload that have passed each port's link."""
    return [
        octets - _HEADERS * packets
        for octets, packets in zip(counters(ports, 0), counters(ports, 1), strict=True)
    ]
