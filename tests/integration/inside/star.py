"""Emulated hosts, and sockets on them."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import permutations

from pyroute2 import DiagSocket, IPRoute
from pyroute2.netlink.diag import SS_CONN
from pyroute2.netlink.exceptions import NetlinkError

from ddlbench.network import shaping
from ddlbench.network.link import Link
from ddlbench.network.star import Star
from ddlbench.system.namespaces import entered

ADDRESSES = ["10.66.0.1", "10.66.0.2"]
_TCP_INFO = 1 << (2 - 1)  # the kernel's INET_DIAG_INFO, as a bit of what is asked for
BACKENDS = {"tbf+netem": shaping.Netem, "tbf+nfqueue": shaping.DelayedVerdicts}


@contextmanager
def hosts(
    backend: str | None,
    *,
    congestion_control: str = "cubic",
    dilation: float = 1.0,
    addresses: list[str] = ADDRESSES,
    sites: int = 1,
) -> Iterator[Star]:
    """Emulated hosts whose links are made by `backend`, or by what this kernel chooses."""
    with Star(addresses, congestion_control=congestion_control, dilation=dilation, sites=sites) as star:
        if backend not in (None, star.backend.name):
            star.backend = star._cleanup.enter_context(BACKENDS[backend](star.backend.ports, dilation))
        yield star


def backends() -> list[str]:
    """The backends that this kernel can do, the one that it chooses first."""
    with hosts(None) as star:
        found = [star.backend.name]
        for name in set(BACKENDS) - set(found):
            try:
                with BACKENDS[name](star.backend.ports) as backend:
                    backend.shape([Link(100, 1)] * len(backend.ports))
            except (OSError, NetlinkError) as error:
                print(f"{name}: {error}", file=sys.stderr)
            else:
                found.append(name)
    return found


def listening(star: Star, host: int) -> socket.socket:
    """A listening TCP socket on a host."""
    with entered(star.namespaces[host]):
        return socket.create_server((star.addresses[host], 0))


def connected(star: Star, server: socket.socket, host: int = 0) -> socket.socket:
    """A TCP socket of a host that is connected to `server`."""
    with entered(star.namespaces[host]):
        return socket.create_connection(server.getsockname(), timeout=300)


def datagrams(star: Star, host: int) -> socket.socket:
    """A UDP socket of a host."""
    with entered(star.namespaces[host]):
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.bind((star.addresses[host], 0))
    return endpoint


def flood(sender: socket.socket, address: tuple[str, int]) -> None:
    """Send for as long as the sandbox is there; nothing else may happen in a fork of the process."""
    try:
        while True:
            with suppress(OSError):
                sender.sendto(bytes(1400), address)
    finally:
        os._exit(0)


def carried(star: Star) -> list[int]:
    """Bytes that each host has sent and received, in turn."""
    with IPRoute() as router:
        found: list[int] = []
        for number in range(1, len(star.addresses) + 1):
            (port,) = router.get_links(ifname=f"p{number}")
            counted = port.get_attr("IFLA_STATS64")
            found += [counted["rx_bytes"], counted["tx_bytes"]]
    return found


def data_sent(star: Star) -> dict[tuple[int, int], int]:
    """Bytes that each host's connections have given another host: each byte once, without what frames add to it.

    The kernel counts them by connection, and so neither an ACK nor what a busy machine makes TCP send again is here.
    """
    number = {address: host for host, address in enumerate(star.addresses)}
    found = dict.fromkeys(permutations(number.values(), 2), 0)
    for host, namespace in enumerate(star.namespaces):
        for peer, counted in _connections(namespace):
            other = number.get(peer, host)
            if other != host:
                found[host, other] += counted["tcpi_bytes_sent"] - counted["tcpi_bytes_retrans"]
    return found


def _connections(namespace: int) -> list[tuple[str, dict[str, int]]]:
    """The peer of each of a namespace's TCP connections, and what the kernel counts of it.

    A socket of version 6 may have a peer of version 4.
    """
    with entered(namespace), DiagSocket() as diagnosis:
        diagnosis.bind()
        return [
            (connection["idiag_dst"].removeprefix("::ffff:"), counted)
            for family in (socket.AF_INET, socket.AF_INET6)
            for connection in diagnosis.get_sock_stats(family, SS_CONN, extensions=_TCP_INFO)
            if (counted := connection.get_attr("INET_DIAG_INFO")) is not None
        ]
