"""The check of sites: rate, latency, jitter and loss of every host's LAN and of every direction between two sites.

Each link is measured alone, from its sending end to the sink of the site that it leads to, with one clock at both ends.
First all latencies are measured at once while the links are idle, then the rates of all LANs, then those of all WANs.
At last packets are counted, if some link loses packets.
"""

import socket
import struct
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from math import sqrt
from selectors import EVENT_READ
from statistics import fmean, median, pstdev
from time import monotonic, perf_counter

from ddlbench.network.link import Link
from ddlbench.network.ports import Port
from ddlbench.network.sites import SharedCards, Sites, direction_name, directions
from ddlbench.network.sizes import drain_ms, sizing_link, train_bytes
from ddlbench.network.star import Star
from ddlbench.network.traffic import (
    FULL,
    GRACE_S,
    LOSS_PAYLOAD,
    Effort,
    discarding,
    packets_needed,
    rates_mbit,
    send_small_packets,
    senders_needed,
    settled_count,
    udp_socket,
    watching,
)
from ddlbench.network.verify import OutOfTolerance, deviations, with_retries
from ddlbench.network.wiring import Sink
from ddlbench.protocol.tolerances import Tolerances

_PINGS, _JITTERED_PINGS = 9, 40
_PING_GAP_S = 0.004
_SPREAD = sqrt(3)  # half the width of a uniform distribution, in standard deviations
# How far chance alone may take the mean and the width of jittered pings, in jitters (99.9 % of the time).
_MEAN_CHANCE = 3.3 / sqrt(3 * _JITTERED_PINGS)
_WIDTH_CHANCE = 3.3 * sqrt(0.2 / _JITTERED_PINGS)
_SO_MEMINFO, _MEMINFO_DROPS = 55, 8


@dataclass(frozen=True)
class OneWay:
    """What a link was measured to be, as it would be without time dilation.

    Attributes:
        rate_mbit: on the wire, in Mbit/s.
        latency_ms: one way.
        jitter_ms: half the width of the uniform distribution with the standard deviation of the measured latencies.
        loss_percent: one way.
    """

    rate_mbit: float
    latency_ms: float
    jitter_ms: float
    loss_percent: float

    def as_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


@dataclass(frozen=True)
class Path:
    """One link under test, from its sending end to a sink.

    Attributes:
        name: the host's site, or the direction between two sites.
        description: which link it is, for messages.
        asked: the link as it was asked for.
        link: the link as it is made, dilated.
        port: where it enters its router.
        sink: where the packets are sent to.
    """

    name: str
    description: str
    asked: Link
    link: Link
    port: Port
    sink: Sink

    @property
    def longest_ms(self) -> float:
        """How long a packet may be on its way, in ms, dilated."""
        return self.link.latency_ms + self.link.jitter_ms

    def receiver(self) -> socket.socket:
        """Open a socket of the sink, for this path alone."""
        return udp_socket(self.sink.namespace, self.sink.address, 0)

    def sender(self, receiver: socket.socket) -> socket.socket:
        """Open a socket at the sending end.

        Args:
            receiver: the socket at the sink, to which it is connected.

        Returns:
            The socket, which the caller closes.
        """
        endpoint = udp_socket(self.port.namespace, "", 0)
        endpoint.connect(receiver.getsockname())
        return endpoint


def verify_sites(
    star: Star, sites: Sites | SharedCards, tolerances: Tolerances, effort: Effort = FULL
) -> dict[str, dict[str, float]]:
    """Measure all links of the sites, or of hosts that share cards, several times if one is out of tolerance.

    Args:
        star: the hosts; nothing else may be sent over their links.
        sites: what they were given, not dilated.
        tolerances: how far a link may be from it.
        effort: how long to measure in the first attempt.

    Returns:
        {site, direction, `inside` or `card`: numbers as of `OneWay`}; for each those with the worst rate.

    Raises:
        OutOfTolerance: a link stays out of tolerance; names it, with what was asked for and what was measured.
        DdlbenchError: a process that the links need has died.
    """
    return with_retries(lambda each: _checked(star, sites, tolerances, each), effort)


def _checked(
    star: Star, sites: Sites | SharedCards, tolerances: Tolerances, effort: Effort
) -> dict[str, dict[str, float]]:
    results = measure_sites(star, sites, effort)
    for path, found in results:
        asked = path.asked
        times = [("latency", found.latency_ms, asked.latency_ms, _MEAN_CHANCE * asked.jitter_ms)]
        if asked.jitter_ms:
            times.append(("jitter", found.jitter_ms, asked.jitter_ms, _WIDTH_CHANCE * asked.jitter_ms))
        if wrong := deviations(asked, found.rate_mbit, found.loss_percent, tolerances, effort, *times):
            raise OutOfTolerance(path.description, asked, star.backend.name, wrong)
    results.sort(key=lambda result: abs(result[1].rate_mbit / result[0].asked.bandwidth_mbit - 1))
    return {
        path.name: found.as_dict() for path, found in results
    }  # the worst come last, and replace the others


def measure_sites(star: Star, sites: Sites | SharedCards, effort: Effort) -> list[tuple[Path, OneWay]]:
    """Measure all links of the sites once.

    Args:
        star: the hosts.
        sites: what they were given, not dilated.
        effort: how long to measure.

    Returns:
        (link, what was measured) of every host, then of every direction.
    """
    paths = _paths(star, sites)
    lans, wans = paths[: len(star.addresses)], paths[len(star.addresses) :]
    train = min(train_bytes(sizing_link(path.asked, star.dilation)) for path in paths)
    times_ms = _latencies_ms(paths)
    rates = [rate for group in (lans, wans) for rate in _rates_mbit(group, star.dilation, train, effort)]
    star.backend.check()
    losses = _losses_percent(paths, effort.loss_packets) if sites.is_lossy else [0.0] * len(paths)
    return [
        (path, _one_way(path, star.dilation, rate_mbit, trips_ms, loss_percent))
        for path, rate_mbit, trips_ms, loss_percent in zip(paths, rates, times_ms, losses, strict=True)
    ]


def _one_way(
    path: Path, dilation: float, rate_mbit: float, times_ms: list[float], loss_percent: float
) -> OneWay:
    if not times_ms:
        return OneWay(rate_mbit * dilation, float("inf"), float("inf"), loss_percent)
    middle = fmean if path.link.jitter_ms else median
    return OneWay(
        rate_mbit * dilation,
        middle(times_ms) / dilation,
        _SPREAD * pstdev(times_ms) / dilation,
        loss_percent,
    )


def _paths(star: Star, sites: Sites | SharedCards) -> list[Path]:
    named = _of_cards(star) if isinstance(sites, SharedCards) else _of_sites(star, sites)
    links, ports = star.links(sites), star.backend.ports
    return [
        Path(name, description, link, link.dilated(star.dilation), port, star.sinks[sink])
        for (name, description, sink), link, port in zip(named, links, ports, strict=True)
    ]


def _of_cards(star: Star) -> list[tuple[str, str, int]]:
    """Name, description and number of the sink, of each worker's link and then of each card."""
    inside = [
        ("inside", f"the emulated link of worker {number} inside host h{card + 1}", card)
        for number, card in enumerate(star.card_of, start=1)
    ]
    cards = range(max(star.card_of) + 1)
    return inside + [("card", f"the emulated card of host h{card + 1}", len(cards)) for card in cards]


def _of_sites(star: Star, sites: Sites) -> list[tuple[str, str, int]]:
    hosts = [
        (sites.names[site], f"the emulated LAN of host h{number} ({sites.names[site]})", site)
        for number, site in enumerate(star.site_of, start=1)
    ]
    ways = [
        (way := direction_name(sites.names, direction), f"{way}: the emulated WAN", direction[1])
        for direction in directions(len(sites.names))
    ]
    return [*hosts, *ways]


def _latencies_ms(paths: list[Path]) -> list[list[float]]:
    """Return how long small packets were on their way, in ms, for each path; no packet waits for another."""
    jitter_ms = max(path.link.jitter_ms for path in paths)
    wanted = _JITTERED_PINGS if jitter_ms else _PINGS
    pings = max(packets_needed(wanted, path.link, crossings=1) for path in paths)
    gap_s = max(_PING_GAP_S, (2 * jitter_ms + 1) / 1000)
    deadline = monotonic() + max(path.longest_ms for path in paths) / 1000 + pings * gap_s + GRACE_S
    found: list[list[float]] = [[] for _ in paths]
    with ExitStack() as stack:
        receivers = [stack.enter_context(path.receiver()) for path in paths]
        senders = [stack.enter_context(path.sender(to)) for path, to in zip(paths, receivers, strict=True)]
        number = {receiver: index for index, receiver in enumerate(receivers)}
        ready = stack.enter_context(watching(receivers, EVENT_READ))
        sent, next_ping = 0, monotonic()
        while min(map(len, found)) < wanted and monotonic() < deadline:
            if sent < pings and monotonic() >= next_ping:
                for sender in senders:
                    sender.send(struct.pack("=d", perf_counter()))
                sent += 1
                next_ping += gap_s
            wait_s = max(0.0, (next_ping if sent < pings else deadline) - monotonic())
            for receiver in ready(wait_s):
                started = struct.unpack("=d", receiver.recv(64))[0]
                found[number[receiver]].append((perf_counter() - started) * 1000)
    return found


def _rates_mbit(paths: list[Path], dilation: float, train: int, effort: Effort) -> list[float]:
    with ExitStack() as stack:
        receivers = [discarding(stack.enter_context(path.receiver()), trains=True) for path in paths]
        senders = [
            [stack.enter_context(path.sender(to)) for _ in range(senders_needed(path.link))]
            for path, to in zip(paths, receivers, strict=True)
        ]
        ports, links = [path.port for path in paths], [path.link for path in paths]
        full_ms = max(drain_ms(path.asked, dilation) for path in paths)
        return rates_mbit(senders, ports, links, train, effort, drain_ms=full_ms)


def _losses_percent(paths: list[Path], packets: int) -> list[float]:
    """Return the percentage of small packets of each path that do not arrive."""
    longest_ms = max(path.longest_ms for path in paths)
    with ExitStack() as stack:
        receivers = [discarding(stack.enter_context(path.receiver()), trains=False) for path in paths]
        senders = [stack.enter_context(path.sender(to)) for path, to in zip(paths, receivers, strict=True)]
        send_small_packets(senders, [path.link for path in paths], packets, longest_ms=longest_ms)
        settled_count(lambda: list(map(_dropped, receivers)), longest_ms)
        arrived = [_dropped(receiver) + _queued(receiver) for receiver in receivers]
    return [100 * (1 - count / packets) for count in arrived]


def _dropped(receiver: socket.socket) -> int:
    """Return how many packets a socket has dropped because it had no room for them."""
    information = receiver.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * (_MEMINFO_DROPS + 1))
    return int(struct.unpack_from("=I", information, 4 * _MEMINFO_DROPS)[0])


def _queued(receiver: socket.socket) -> int:
    """Return how many packets wait in a socket, and remove them."""
    count = 0
    with suppress(BlockingIOError):
        while receiver.recv(LOSS_PAYLOAD):
            count += 1
    return count
