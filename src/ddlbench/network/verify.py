"""The check of a link before anything measured on it counts: rate, round-trip time and loss of every host.

All hosts are measured at once, each towards the next. Round trips are timed with UDP while the links are idle. Then
each host sends UDP as fast as its link allows, and the router's counters show what has passed.
"""

import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from selectors import EVENT_READ
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import TypeVar

from ddlbench.errors import DdlbenchError
from ddlbench.network.link import Link
from ddlbench.network.sizes import drain_ms, sizing_link, train_bytes
from ddlbench.network.star import Star
from ddlbench.network.traffic import (
    FULL,
    GRACE_S,
    LONG,
    UDP_SEGMENT,
    Effort,
    chance_points,
    counters,
    discarding,
    packets_needed,
    rates_mbit,
    send_small_packets,
    senders_needed,
    settled_count,
    udp_socket,
    watching,
)
from ddlbench.protocol.tolerances import Tolerances

_DISCARD_PORT, _PING_PORT = 9, 7
_PINGS = 7
_PING_GAP_S = 0.004
# How far the median of seven round trips may lie from the middle of two jitters (99.9 % of the time).
_MEDIAN_CHANCE = 1.2
_ATTEMPTS, _PAUSE_S = 5, 0.3
_RATE = "rate "
_OR_DILATE = (
    ". If all hosts together are too fast for this machine: a larger dilation (`--dilation K`, or `dilation` in the "
    "configuration) makes each link K times slower, and divides what is measured by K"
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Measured:
    """What a link was measured to be, as it would be without time dilation.

    Attributes:
        rate_mbit: on the wire, in Mbit/s.
        rtt_ms: the round-trip time of the idle link.
        loss_percent: one way.
    """

    rate_mbit: float
    rtt_ms: float
    loss_percent: float

    def as_dict(self) -> dict[str, float]:
        """Return the three numbers by name."""
        return asdict(self)


def verify(star: Star, link: Link, tolerances: Tolerances, effort: Effort = FULL) -> Measured:
    """Measure the link of every host, several times if it is out of tolerance.

    Args:
        star: the hosts; nothing else may be sent over their links.
        link: what they were given, not dilated.
        tolerances: how far a link may be from it.
        effort: how long to measure in the first attempt.

    Returns:
        What was measured of the host whose rate is furthest from the link's.

    Raises:
        OutOfTolerance: a host's link stays out of tolerance; with what was asked for and what was measured.
        DdlbenchError: a process that the links need has died.
    """
    return with_retries(
        lambda each: _checked(star, link, tolerances, measure(star, link, each), each), effort
    )


def with_retries(check: Callable[[Effort], Result], effort: Effort) -> Result:
    """Call a check until it succeeds, a few times at most: a busy machine may disturb a measurement, never improve it.

    The second attempt and all later ones measure longer. If a machine pauses for 10 ms, that is 5 % of a short
    measurement, in every attempt.

    Args:
        check: raises OutOfTolerance if it fails.
        effort: of the first attempt.

    Returns:
        What the check returns.

    Raises:
        OutOfTolerance: the last attempt failed too.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return check(effort)
        except OutOfTolerance:
            if attempt == _ATTEMPTS:
                raise
            effort = LONG
            sleep(_PAUSE_S)
    raise AssertionError


class OutOfTolerance(DdlbenchError):
    """A link that is not what was asked for."""

    def __init__(self, where: str, link: Link, backend: str, wrong: list[str]) -> None:
        # One process fills the links of all hosts. It may not manage what many cores forward together (`Capacity`).
        slower = any(each.startswith(_RATE) for each in wrong)
        super().__init__(
            f"{where} is not what was asked for ({link}; {backend}): {', '.join(wrong)}. "
            "Nothing measured on it counts. Is the machine busy? Try again, or ask for less"
            f"{_OR_DILATE if slower else ''}."
        )


def deviations(
    link: Link,
    rate_mbit: float,
    loss_percent: float,
    tolerances: Tolerances,
    effort: Effort,
    *times: tuple[str, float, float, float],
) -> list[str]:
    """Compare what was measured of a link with what was asked for.

    Args:
        link: what was asked for.
        rate_mbit: what was measured.
        loss_percent: what was measured.
        tolerances: how far they may be from each other.
        effort: of the measurement, which decides what chance alone may do to the loss.
        *times: (name, what was measured, what was asked for, what chance alone may do), in ms.

    Returns:
        One text for each property that is out of tolerance; none if the link is in tolerance.
    """
    wrong = []
    if abs(rate_mbit / link.bandwidth_mbit - 1) * 100 > tolerances.rate_percent:
        wrong.append(f"{_RATE}{rate_mbit:.1f} instead of {link.bandwidth_mbit:g} Mbit/s")
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
        if wrong := deviations(link, found.rate_mbit, found.loss_percent, tolerances, effort, trip):
            raise OutOfTolerance(f"the emulated link of host h{host}", link, star.backend.name, wrong)
    return max(results, key=lambda found: abs(found.rate_mbit - link.bandwidth_mbit))


def measure(star: Star, link: Link, effort: Effort = FULL) -> list[Measured]:
    """Measure the links of all hosts at once.

    Args:
        star: the hosts.
        link: what they were given, not dilated.
        effort: how long to measure.

    Returns:
        What was measured of each host.
    """
    train, full_ms = train_bytes(sizing_link(link, star.dilation)), drain_ms(link, star.dilation)
    link = link.dilated(star.dilation)
    hosts = range(len(star.addresses))
    with ExitStack() as stack:

        def udp(host: int, port: int) -> socket.socket:
            return stack.enter_context(udp_socket(star.namespaces[host], star.addresses[host], port))

        pings = [udp(host, _PING_PORT) for host in hosts]
        for host in hosts:  # no answers travel back
            discarding(udp(host, _DISCARD_PORT), trains=True)
        senders = [[udp(host, 0) for _ in range(senders_needed(link))] for host in hosts]
        for host in hosts:
            for endpoint in senders[host]:
                endpoint.connect(_next_host(star, host, _DISCARD_PORT))
        rtts = _round_trips_ms(star, pings, link)
        rates = rates_mbit(senders, star.backend.ports, [link] * len(hosts), train, effort, drain_ms=full_ms)
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
    pings = packets_needed(_PINGS, link, crossings=2)
    gap_s = max(_PING_GAP_S, (2 * link.jitter_ms + 1) / 1000)  # so that none waits for the one before it
    longest_s = 2 * (link.latency_ms + link.jitter_ms) / 1000
    deadline = monotonic() + longest_s + pings * gap_s + GRACE_S
    sent = 0
    next_ping = monotonic()
    number = {endpoint: host for host, endpoint in enumerate(sockets)}
    with watching(sockets, EVENT_READ) as ready:
        while min(len(trip) for trip in trips) < _PINGS and monotonic() < deadline:
            if sent < pings and monotonic() >= next_ping:
                for host, endpoint in enumerate(sockets):
                    endpoint.sendto(
                        struct.pack("=Bd", host, perf_counter()), _next_host(star, host, _PING_PORT)
                    )
                sent += 1
                next_ping += gap_s
            wait_s = max(0.0, (next_ping if sent < pings else deadline) - monotonic())
            for endpoint in ready(wait_s):
                packet, sender = endpoint.recvfrom(2048)
                origin, started = struct.unpack("=Bd", packet)
                if origin == number[endpoint]:
                    trips[origin].append((perf_counter() - started) * 1000)
                else:
                    endpoint.sendto(packet, sender)
    return [median(trip) if trip else float("inf") for trip in trips]


def _losses_percent(star: Star, senders: list[socket.socket], link: Link, packets: int) -> list[float]:
    """Return the percentage of small packets of each host that the router does not forward to the next."""
    for endpoint in senders:
        endpoint.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)

    def forwarded() -> list[int]:
        return counters(star.backend.ports, 9)

    before = settled_count(forwarded, link.latency_ms)
    send_small_packets(senders, [link], packets, longest_ms=link.latency_ms)
    after = settled_count(forwarded, link.latency_ms)
    shares = [(now - then) / packets for then, now in zip(before, after, strict=True)]
    return [100 * max(0.0, 1 - shares[(host + 1) % len(shares)]) for host in range(len(shares))]
