"""Load on links, and what passes them: what the probes of a star and of sites share.

Counted is what a frame takes on the wire (1,514 bytes for 1,472 of payload), however the kernel groups frames.
"""

import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from statistics import median
from time import monotonic, sleep

from ddlbench.network.link import Link
from ddlbench.network.shaping import Port
from ddlbench.system.namespaces import entered

UDP_SEGMENT, UDP_GRO = 103, 104
PAYLOAD, _HEADERS = 1472, 42
FRAME = PAYLOAD + _HEADERS
LOSS_PAYLOAD = 64
GRACE_S = 2.0
# Together the senders on a link queue this much, so that it stays busy while this process is put aside.
_QUEUED_S, _QUEUED_BYTES = 0.04, 150_000  # of one socket
_SETTLE_S = 0.05
# Of what passes in a part of the window: longer trains blur where it ends, shorter ones are too many for this process.
_TRAIN_SHARE = 0.01


@dataclass(frozen=True)
class Effort:
    """How long a link is looked at: its rate for `window_s` in `windows` parts, its loss over `loss_packets`.

    The median of the parts counts: a moment in which this process was put aside does not.
    """

    window_s: float
    windows: int
    loss_packets: int


FULL = Effort(window_s=0.2, windows=9, loss_packets=20_000)
BRIEF = Effort(window_s=0.06, windows=3, loss_packets=4_000)  # for what was found right before
PATIENT = Effort(window_s=1.0, windows=5, loss_packets=20_000)  # for what was found wrong just now


def udp_socket(namespace: int, address: str, port: int) -> socket.socket:
    """A UDP socket, not blocking, bound in that network namespace."""
    with entered(namespace):
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.bind((address, port))
    endpoint.setblocking(False)
    return endpoint


def swallowing(endpoint: socket.socket, *, trains: bool) -> socket.socket:
    """Have a socket that nobody reads take and drop what comes, in whole trains as TCP's would come, or one by one."""
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    endpoint.setsockopt(socket.IPPROTO_UDP, UDP_GRO, int(trains))
    return endpoint


def senders_needed(link: Link) -> int:
    """How many sockets keep a link (dilated) busy."""
    return min(40, max(2, ceil(link.bandwidth_mbit * 1e6 / 8 * _QUEUED_S / _QUEUED_BYTES)))


def rates_mbit(
    senders: Sequence[Sequence[socket.socket]],
    ports: Sequence[Port],
    links: Sequence[Link],
    train_bytes: int,
    effort: Effort,
) -> list[float]:
    """What passes each port per second while its senders, connected, send as fast as they can.

    links: of the ports, dilated. Trains are at most `train_bytes` long, shorter on slow links.
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
    marks: list[tuple[float, list[int]]] = []
    next_mark = monotonic() + _SETTLE_S
    while len(marks) <= windows:
        if monotonic() >= next_mark:
            marks.append((monotonic(), _sent_payload(ports)))
            next_mark += window_s / windows
        for endpoint in select.select([], train_of, [], 0.001)[1]:
            with suppress(BlockingIOError):
                endpoint.send(train_of[endpoint])
    # The queues run empty before anything else is measured.
    train_ms = 1000 * window_s / windows * _TRAIN_SHARE
    settled(lambda: _sent_payload(ports), max(link.latency_ms + link.jitter_ms for link in links) + train_ms)
    to_mbit = FRAME / PAYLOAD * 8e-6
    return [
        median((b[port] - a[port]) * to_mbit / (end - begin) for (begin, a), (end, b) in pairwise(marks))
        for port in range(len(ports))
    ]


def settled(count: Callable[[], list[int]], longest_ms: float) -> list[int]:
    """A count of packets when nothing is on its way any more, which takes up to `longest_ms`."""
    deadline = monotonic() + longest_ms / 1000 + GRACE_S
    latest, before = count(), None
    while latest != before and monotonic() < deadline:
        sleep(0.02 + longest_ms / 1000)
        latest, before = count(), latest
    return latest


def chance_points(loss_percent: float, packets: int) -> float:
    """How far chance alone may take the counted loss from the true one, in percentage points (99.9 % of the time)."""
    share = loss_percent / 100
    return 3.3 * 100 * sqrt(share * (1 - share) / packets)


def counters(ports: Sequence[Port], column: int) -> list[int]:
    """A column of /proc/net/dev for the routers' side of ports (0, 1: bytes and packets in; 8, 9: out)."""
    rows: dict[tuple[int, str], list[str]] = {}
    for router in dict.fromkeys(port.router for port in ports):
        with entered(router), open("/proc/thread-self/net/dev") as file:
            for line in file:
                name, colon, values = line.partition(":")
                if colon:
                    rows[router, name.strip()] = values.split()
    return [int(rows[port.router, port.name][column]) for port in ports]


def _sent_payload(ports: Sequence[Port]) -> list[int]:
    """Bytes of UDP payload that have passed each port's shaper."""
    return [
        octets - _HEADERS * packets
        for octets, packets in zip(counters(ports, 0), counters(ports, 1), strict=True)
    ]
