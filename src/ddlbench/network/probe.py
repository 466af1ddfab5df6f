"""The check of a link before anything measured on it counts: rate, round-trip time and loss of every host.

All hosts are probed at once, each towards the next. Round trips are timed with UDP while the link is idle; then each
host sends UDP as fast as its link takes it, and the router's counters tell what passed. Counted is what a frame takes
on the wire (1,514 bytes for 1,472 of payload), however the kernel groups frames.
"""

import select
import socket
import struct
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import ceil, sqrt
from statistics import median
from time import monotonic, perf_counter, sleep

from ddlbench.errors import DdlbenchError
from ddlbench.network.link import Link
from ddlbench.network.namespaces import entered
from ddlbench.network.shaping import train_bytes
from ddlbench.network.star import Star

_UDP_SEGMENT, _UDP_GRO = 103, 104
_PAYLOAD, _HEADERS = 1472, 42
_FRAME = _PAYLOAD + _HEADERS
_DISCARD_PORT, _PING_PORT = 9, 7
# Together the senders of a host queue this much, so that the link stays busy while this process is put aside.
_QUEUED_S, _QUEUED_BYTES = 0.04, 150_000  # of one socket
_PINGS = 7
_PING_GAP_S = 0.004
_SETTLE_S = 0.05
_RATE_WINDOW_S = 0.2
_RATE_WINDOWS = 9  # their median counts: a moment in which this process was put aside does not
_LOSS_PACKETS = 20_000
_LOSS_PAYLOAD = 64
_GRACE_S = 2.0
_ATTEMPTS, _PAUSE_S = 5, 0.3


@dataclass(frozen=True)
class Measured:
    """What a link was measured to be: `rate_mbit` on the wire, `rtt_ms` of an idle link, `loss_percent` one way.

    As they would be without time dilation.
    """

    rate_mbit: float
    rtt_ms: float
    loss_percent: float

    def as_dict(self) -> dict[str, float]:
        """The three numbers by name."""
        return asdict(self)


@dataclass(frozen=True)
class Tolerances:
    """How far a measured link may be from what was asked for."""

    rate_percent: float
    rtt_percent: float
    rtt_ms: float
    loss_points: float


def verify(star: Star, link: Link, tolerances: Tolerances) -> Measured:
    """Measure the link of every host; returns the worst values.

    A busy machine may disturb a probe, never improve it: it is tried a few times.
    Raises DdlbenchError where a host's link stays out of tolerance, with what was asked for and what was measured.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _checked(star, link, tolerances, measure(star, link))
        except OutOfTolerance:
            if attempt == _ATTEMPTS:
                raise
            sleep(_PAUSE_S)
    raise AssertionError


class OutOfTolerance(DdlbenchError):
    """A link that is not what was asked for."""


def _checked(star: Star, link: Link, tolerances: Tolerances, results: list[Measured]) -> Measured:
    asked_rtt_ms = 2 * link.latency_ms
    for host, found in enumerate(results, start=1):
        wrong = []
        if abs(found.rate_mbit / link.bandwidth_mbit - 1) * 100 > tolerances.rate_percent:
            wrong.append(f"rate {found.rate_mbit:.1f} instead of {link.bandwidth_mbit:g} Mbit/s")
        if abs(found.rtt_ms - asked_rtt_ms) > max(
            tolerances.rtt_ms, asked_rtt_ms * tolerances.rtt_percent / 100
        ):
            wrong.append(f"round trip {found.rtt_ms:.2f} instead of {asked_rtt_ms:g} ms")
        if abs(found.loss_percent - link.loss_percent) > max(tolerances.loss_points, _chance_points(link)):
            wrong.append(f"loss {found.loss_percent:.2f} instead of {link.loss_percent:g} %")
        if wrong:
            raise OutOfTolerance(
                f"the emulated link of host h{host} is not what was asked for ({link}; {star.backend.name}): "
                f"{', '.join(wrong)}. Nothing measured on it counts. Is the machine busy? Try again, or ask for less."
            )
    return max(results, key=lambda found: abs(found.rate_mbit - link.bandwidth_mbit))


def _chance_points(link: Link) -> float:
    """How far chance alone may take the counted loss from the true one, in percentage points (99.9 % of the time)."""
    share = link.loss_percent / 100
    return 3.3 * 100 * sqrt(share * (1 - share) / _LOSS_PACKETS)


def measure(star: Star, link: Link) -> list[Measured]:
    """Measure the link of every host, all at once."""
    train = train_bytes(link)
    link = link.dilated(star.dilation)
    with ExitStack() as stack:
        hosts = range(len(star.addresses))
        pings = [stack.enter_context(_udp_socket(star, host, _PING_PORT)) for host in hosts]
        count = min(40, max(2, ceil(link.bandwidth_mbit * 1e6 / 8 * _QUEUED_S / _QUEUED_BYTES)))
        senders = [[stack.enter_context(_udp_socket(star, host, 0)) for host in hosts] for _ in range(count)]
        for host in hosts:  # a socket that takes the load and is never read: no answers travel back
            sink = stack.enter_context(_udp_socket(star, host, _DISCARD_PORT))
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            sink.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)  # trains arrive whole, as TCP's would
        rtts = _round_trips_ms(star, pings, link)
        rates = _rates_mbit(star, senders, link, train)
        losses = _losses_percent(star, senders[0], link) if link.loss_percent > 0 else [0.0] * len(pings)
    return [
        Measured(rate_mbit * star.dilation, rtt_ms / star.dilation, loss_percent)
        for rate_mbit, rtt_ms, loss_percent in zip(rates, rtts, losses, strict=True)
    ]


def _udp_socket(star: Star, host: int, port: int) -> socket.socket:
    with entered(star.namespaces[host]):
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.bind((star.addresses[host], port))
    endpoint.setblocking(False)
    return endpoint


def _next_host(star: Star, host: int, port: int) -> tuple[str, int]:
    return star.addresses[(host + 1) % len(star.addresses)], port


def _round_trips_ms(star: Star, sockets: list[socket.socket], link: Link) -> list[float]:
    """Median round-trip time of each host to the next; all pings are on their way at the same time."""
    trips: list[list[float]] = [[] for _ in sockets]
    pings = _PINGS if link.loss_percent == 0 else 3 * _PINGS
    deadline = monotonic() + 2 * link.latency_ms / 1000 + pings * _PING_GAP_S + _GRACE_S
    sent = 0
    next_ping = monotonic()
    number = {endpoint: host for host, endpoint in enumerate(sockets)}
    patience = pings if link.loss_percent == 0 else _PINGS
    while min(len(trip) for trip in trips) < patience and monotonic() < deadline:
        if sent < pings and monotonic() >= next_ping:
            for host, endpoint in enumerate(sockets):
                endpoint.sendto(struct.pack("=Bd", host, perf_counter()), _next_host(star, host, _PING_PORT))
            sent += 1
            next_ping += _PING_GAP_S
        wait = max(0.0, next_ping - monotonic()) if sent < pings else max(0.0, deadline - monotonic())
        for endpoint in select.select(sockets, [], [], wait)[0]:
            packet, sender = endpoint.recvfrom(2048)
            origin, started = struct.unpack("=Bd", packet)
            if origin == number[endpoint]:
                trips[origin].append((perf_counter() - started) * 1000)
            else:
                endpoint.sendto(packet, sender)
    return [median(trip) if trip else float("inf") for trip in trips]


def _rates_mbit(star: Star, senders: list[list[socket.socket]], link: Link, train_bytes: int) -> list[float]:
    """What passes each host's shaper per second while the host sends as fast as it can, in trains at most that long."""
    bytes_per_s = link.bandwidth_mbit * 1e6 / 8
    window_s = max(_RATE_WINDOW_S, 300 * _FRAME / bytes_per_s)
    windows = _RATE_WINDOWS if bytes_per_s * window_s > _RATE_WINDOWS * 300 * _FRAME else 1
    frames = int(min(train_bytes // _FRAME, max(1, bytes_per_s * window_s / windows * 0.005 / _FRAME)))
    train = bytes(frames * _PAYLOAD)
    host_of = {endpoint: host for sockets in senders for host, endpoint in enumerate(sockets)}
    for endpoint in host_of:
        endpoint.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, _PAYLOAD)
    marks: list[tuple[float, list[int]]] = []
    next_mark = monotonic() + _SETTLE_S
    while len(marks) <= windows:
        if monotonic() >= next_mark:
            marks.append((monotonic(), _sent_payload(star)))
            next_mark += window_s / windows
        for endpoint in select.select([], host_of, [], 0.001)[1]:
            with suppress(BlockingIOError):
                endpoint.sendto(train, _next_host(star, host_of[endpoint], _DISCARD_PORT))
    star.backend.check()
    sleep(link.latency_ms / 1000 + 2 * _QUEUED_S)  # the queue runs empty before anything else is measured
    to_mbit = _FRAME / _PAYLOAD * 8e-6
    return [
        median((b[host] - a[host]) * to_mbit / (end - begin) for (begin, a), (end, b) in pairwise(marks))
        for host in range(len(star.addresses))
    ]


def _losses_percent(star: Star, sockets: list[socket.socket], link: Link) -> list[float]:
    """Share of 20,000 small packets of each host that the router does not hand on to the next."""
    for endpoint in sockets:
        endpoint.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, 0)
        endpoint.setblocking(True)
        endpoint.settimeout(_GRACE_S + link.latency_ms / 1000)
    before = _handed_on(star, link)
    for _ in range(_LOSS_PACKETS):
        for host, endpoint in enumerate(sockets):
            endpoint.sendto(bytes(_LOSS_PAYLOAD), _next_host(star, host, _DISCARD_PORT))
    after = _handed_on(star, link)
    shares = [(now - then) / _LOSS_PACKETS for then, now in zip(before, after, strict=True)]
    return [100 * max(0.0, 1 - shares[(host + 1) % len(shares)]) for host in range(len(shares))]


def _handed_on(star: Star, link: Link) -> list[int]:
    """How many packets the router has handed to each host, when nothing is on its way any more."""
    deadline = monotonic() + link.latency_ms / 1000 + _GRACE_S
    latest, count = _counters(star, 9), None
    while latest != count and monotonic() < deadline:
        sleep(0.02 + link.latency_ms / 1000)
        latest, count = _counters(star, 9), latest
    return latest


def _sent_payload(star: Star) -> list[int]:
    """Bytes of UDP payload that have passed each host's shaper."""
    return [
        octets - _HEADERS * packets
        for octets, packets in zip(_counters(star, 0), _counters(star, 1), strict=True)
    ]


def _counters(star: Star, column: int) -> list[int]:
    """A column of /proc/net/dev for the router's side of each host (0, 1: bytes and packets in; 8, 9: out)."""
    with open("/proc/thread-self/net/dev") as file:
        rows = dict(line.split(":", 1) for line in file if ":" in line)
    values = {name.strip(): row.split() for name, row in rows.items()}
    return [int(values[port.name][column]) for port in star.backend.ports]
