"""The check of a link before anything measured on it counts: rate, round-trip time and loss of every host.

All hosts are probed at once, each towards the next. Round trips are timed with UDP while the link is idle; then each
host sends UDP as fast as its link takes it, and the router's counters tell what passed.
"""

import select
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import TypeVar

from ddlbench.errors import DdlbenchError
from ddlbench.network.link import Link
from ddlbench.network.shaping import sized_by, train_bytes
from ddlbench.network.star import Star
from ddlbench.network.traffic import (
    FULL,
    GRACE_S,
    LOSS_PAYLOAD,
    PATIENT,
    UDP_SEGMENT,
    Effort,
    chance_points,
    counters,
    rates_mbit,
    senders_needed,
    settled,
    swallowing,
    udp_socket,
)

_DISCARD_PORT, _PING_PORT = 9, 7
_PINGS = 7
_PING_GAP_S = 0.004
# How far the median of seven round trips may lie from the middle of two jitters (99.9 % of the time).
_MEDIAN_CHANCE = 1.2
_ATTEMPTS, _PAUSE_S = 5, 0.3

Result = TypeVar("Result")


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


def verify(star: Star, link: Link, tolerances: Tolerances, effort: Effort = FULL) -> Measured:
    """Measure the link of every host; returns the worst values.

    Raises DdlbenchError where a host's link stays out of tolerance, with what was asked for and what was measured.
    """
    return persistently(
        lambda each: _checked(star, link, tolerances, measure(star, link, each), each), effort
    )


def persistently(check: Callable[[Effort], Result], effort: Effort) -> Result:
    """What the check returns. A busy machine may disturb a probe, never improve it: it is tried a few times.

    After a failure it looks longer, as a machine that pauses for 10 ms takes 5 % of a short look, on every attempt.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return check(effort)
        except OutOfTolerance:
            if attempt == _ATTEMPTS:
                raise
            effort = PATIENT
            sleep(_PAUSE_S)
    raise AssertionError


class OutOfTolerance(DdlbenchError):
    """A link that is not what was asked for."""

    def __init__(self, where: str, link: Link, backend: str, wrong: list[str]) -> None:
        super().__init__(
            f"{where} is not what was asked for ({link}; {backend}): {', '.join(wrong)}. "
            "Nothing measured on it counts. Is the machine busy? Try again, or ask for less."
        )


def departures(
    link: Link,
    rate_mbit: float,
    loss_percent: float,
    tolerances: Tolerances,
    effort: Effort,
    *times: tuple[str, float, float, float],
) -> list[str]:
    """What departs too far from a link, in words; times: what, found, asked, and what chance alone may do, in ms."""
    wrong = []
    if abs(rate_mbit / link.bandwidth_mbit - 1) * 100 > tolerances.rate_percent:
        wrong.append(f"rate {rate_mbit:.1f} instead of {link.bandwidth_mbit:g} Mbit/s")
    for what, found_ms, asked_ms, chance_ms in times:
        allowed_ms = max(tolerances.rtt_ms, asked_ms * tolerances.rtt_percent / 100) + chance_ms
        if abs(found_ms - asked_ms) > allowed_ms:
            wrong.append(f"{what} {found_ms:.2f} instead of {asked_ms:g} ms")
    allowed_points = max(tolerances.loss_points, chance_points(link.loss_percent, effort.loss_packets))
    if abs(loss_percent - link.loss_percent) > allowed_points:
        wrong.append(f"loss {loss_percent:.2f} instead of {link.loss_percent:g} %")
    return wrong


def _checked(
    star: Star, link: Link, tolerances: Tolerances, results: list[Measured], effort: Effort
) -> Measured:
    for host, found in enumerate(results, start=1):
        trip = ("round trip", found.rtt_ms, 2 * link.latency_ms, _MEDIAN_CHANCE * link.jitter_ms)
        if wrong := departures(link, found.rate_mbit, found.loss_percent, tolerances, effort, trip):
            raise OutOfTolerance(f"the emulated link of host h{host}", link, star.backend.name, wrong)
    return max(results, key=lambda found: abs(found.rate_mbit - link.bandwidth_mbit))


def measure(star: Star, link: Link, effort: Effort = FULL) -> list[Measured]:
    """Measure the link of every host, all at once."""
    train = train_bytes(sized_by(link, star.dilation))
    link = link.dilated(star.dilation)
    hosts = range(len(star.addresses))
    with ExitStack() as stack:

        def udp(host: int, port: int) -> socket.socket:
            return stack.enter_context(udp_socket(star.namespaces[host], star.addresses[host], port))

        pings = [udp(host, _PING_PORT) for host in hosts]
        for host in hosts:  # no answers travel back
            swallowing(udp(host, _DISCARD_PORT), trains=True)
        senders = [[udp(host, 0) for _ in range(senders_needed(link))] for host in hosts]
        for host in hosts:
            for endpoint in senders[host]:
                endpoint.connect(_next_host(star, host, _DISCARD_PORT))
        rtts = _round_trips_ms(star, pings, link)
        rates = rates_mbit(senders, star.backend.ports, [link] * len(hosts), train, effort)
        star.backend.check()
        losses = [0.0] * len(hosts)
        if link.is_lossy:
            losses = _losses_percent(star, [first for first, *_ in senders], link, effort.loss_packets)
    return [
        Measured(rate_mbit * star.dilation, rtt_ms / star.dilation, loss_percent)
        for rate_mbit, rtt_ms, loss_percent in zip(rates, rtts, losses, strict=True)
    ]


def _next_host(star: Star, host: int, port: int) -> tuple[str, int]:
    return star.addresses[(host + 1) % len(star.addresses)], port


def _round_trips_ms(star: Star, sockets: list[socket.socket], link: Link) -> list[float]:
    """Median round-trip time of each host to the next; all pings are on their way at the same time."""
    trips: list[list[float]] = [[] for _ in sockets]
    pings = _PINGS if link.loss_percent == 0 else 3 * _PINGS
    gap_s = max(_PING_GAP_S, (2 * link.jitter_ms + 1) / 1000)  # so that none waits for the one before it
    longest_s = 2 * (link.latency_ms + link.jitter_ms) / 1000
    deadline = monotonic() + longest_s + pings * gap_s + GRACE_S
    sent = 0
    next_ping = monotonic()
    number = {endpoint: host for host, endpoint in enumerate(sockets)}
    patience = pings if link.loss_percent == 0 else _PINGS
    while min(len(trip) for trip in trips) < patience and monotonic() < deadline:
        if sent < pings and monotonic() >= next_ping:
            for host, endpoint in enumerate(sockets):
                endpoint.sendto(struct.pack("=Bd", host, perf_counter()), _next_host(star, host, _PING_PORT))
            sent += 1
            next_ping += gap_s
        wait = max(0.0, next_ping - monotonic()) if sent < pings else max(0.0, deadline - monotonic())
        for endpoint in select.select(sockets, [], [], wait)[0]:
            packet, sender = endpoint.recvfrom(2048)
            origin, started = struct.unpack("=Bd", packet)
            if origin == number[endpoint]:
                trips[origin].append((perf_counter() - started) * 1000)
            else:
                endpoint.sendto(packet, sender)
    return [median(trip) if trip else float("inf") for trip in trips]


def _losses_percent(star: Star, senders: list[socket.socket], link: Link, packets: int) -> list[float]:
    """Share of small packets of each host that the router does not hand on to the next."""
    for endpoint in senders:
        endpoint.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
        endpoint.setblocking(True)
        endpoint.settimeout(GRACE_S + link.latency_ms / 1000)

    def handed_on() -> list[int]:
        return counters(star.backend.ports, 9)

    before = settled(handed_on, link.latency_ms)
    for _ in range(packets):
        for endpoint in senders:
            endpoint.send(bytes(LOSS_PAYLOAD))
    after = settled(handed_on, link.latency_ms)
    shares = [(now - then) / packets for then, now in zip(before, after, strict=True)]
    return [100 * max(0.0, 1 - shares[(host + 1) % len(shares)]) for host in range(len(shares))]
