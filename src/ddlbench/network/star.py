"""Emulated hosts: network namespaces in a star around a router, one star for each site.

Each host is a network namespace whose `eth0` leads to its site's router. The first site's router is the caller's own
namespace, which should be a private sandbox (see `ddlbench.sandbox.sandbox`). The router of every other site is a
namespace of its own, and a cable connects each pair of routers. Addresses are /32 and routed: no host needs another's
hardware address. When the process ends, even by SIGKILL, the kernel removes all of it.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyroute2.netlink.exceptions import NetlinkError

from ddlbench.errors import ConfigError, DdlbenchError
from ddlbench.network.link import Link
from ddlbench.network.ports import Port, steer
from ddlbench.network.shaping import Backend, choose_backend
from ddlbench.network.sites import HostLinks, SharedCards, site_of
from ddlbench.network.sizes import LONGEST_SEGMENTS
from ddlbench.network.wiring import Wiring, route
from ddlbench.protocol.tcp import RTO_MIN_MS
from ddlbench.system.namespaces import entered
from ddlbench.system.processes import allow_descriptors
from ddlbench.system.refusals import what_helps

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_RTO_MIN = 13  # its number among the metrics of a route (linux/rtnetlink.h)


class Star:
    """Emulated hosts on one site or on several. Their links are open (unshaped) at first.

    Args:
        addresses: the IPv4 address of each host, within `hosts.NETWORK`.
        congestion_control: TCP's algorithm on every route (`cubic`, `reno`, ...).
        dilation: how much slower time runs; it changes bandwidth, latency and TCP's shortest retransmission time-out.
        sites: how many; hosts are divided among them (`sites.site_of`).
        longest_trains: as of `shaping.Backend`.
        cards: for each address the network card that it is behind, where several share one; empty: each has its own.

    Attributes:
        site_of: the number of each host's site.
        card_of: the number of the network card that each is behind; empty if none is shared, or there is one alone.
        namespaces: each host's network namespace, a file descriptor.
        sinks: one for each site, none if there is one site; one behind each shared card, then one in front of them.
        backend: what makes the links.

    Raises:
        DdlbenchError: this kernel has no such congestion control, no way to delay packets, or refuses the hosts.
    """

    def __init__(
        self,
        addresses: list[str],
        *,
        congestion_control: str,
        dilation: float = 1.0,
        sites: int = 1,
        longest_trains: bool = False,
        cards: Sequence[int] = (),
    ) -> None:
        _check_congestion_control(congestion_control)
        self.addresses = addresses
        self.dilation = dilation
        self.site_of = [site_of(host, hosts=len(addresses), sites=sites) for host in range(len(addresses))]
        self.card_of = [card - min(cards) for card in cards] if len({*cards}) > 1 else []
        self._congestion_control = congestion_control
        self._wiring = Wiring()
        allow_descriptors()  # a host needs five, and each of the sockets that check its link another one
        with _told_in_words(), ExitStack() as on_error:
            on_error.callback(self._wiring.close)
            ports = self._behind_cards() if self.card_of else self._on_sites(sites)
            self.backend: Backend = on_error.enter_context(choose_backend(ports, dilation))
            self.namespaces = [port.namespace for port in self._ports_of_hosts]
            if longest_trains:
                self._lengthen_trains()
            self._cleanup = on_error.pop_all()

    def _on_sites(self, sites: int) -> list[Port]:
        """Make a star for each site; the ports of hosts, then of the cables between sites."""
        routers = [self._wiring.router(site + 1, is_own=site == 0) for site in range(sites)]
        ports = [
            self._wiring.host(routers[site], f"p{number}", address, self._metrics())
            for number, (address, site) in enumerate(zip(self.addresses, self.site_of, strict=True), 1)
        ]
        self.sinks = [self._wiring.sink(router) for router in routers] if sites > 1 else []
        behind = {site: [sink.address] for site, sink in enumerate(self.sinks)}
        for address, site in zip(self.addresses, self.site_of, strict=True):
            behind.setdefault(site, []).append(address)
        return ports + self._wiring.join(routers, behind)

    def _behind_cards(self) -> list[Port]:
        """Make a router behind each card, with its workers, and one of all cards; ports of workers, then of cards."""
        count = max(self.card_of) + 1
        core = self._wiring.router(count + 1, is_own=True)
        routers, cards = [], []
        for card in range(count):
            addresses = [self.addresses[place] for place, of in enumerate(self.card_of) if of == card]
            router, port = self._wiring.router_behind_card(core, card + 1, addresses, self._metrics())
            routers.append(router)
            cards.append(port)
        ports = [
            self._wiring.host(routers[card], f"p{number}", address, self._metrics())
            for number, (address, card) in enumerate(zip(self.addresses, self.card_of, strict=True), 1)
        ]
        self.sinks = [self._wiring.sink(router) for router in (*routers, core)]
        return ports + cards

    def _lengthen_trains(self) -> None:
        """Let moving bytes cost as little CPU time as can be."""
        self.backend.longest_trains = True
        self.backend.steered = steer(self.backend.ports)
        for namespace in self.namespaces:
            with entered(namespace):  # else TCP makes trains of a millisecond of the dilated rate
                Path("/proc/sys/net/ipv4/tcp_min_tso_segs").write_text(str(LONGEST_SEGMENTS))

    def dilate(self, dilation: float) -> None:
        """Let time run more slowly, or faster, from now on.

        Args:
            dilation: the factor; the links must be open.
        """
        self.dilation = self.backend.dilation = dilation
        for port in self._ports_of_hosts:
            port.netlink.route("replace", **route(port.index, self._metrics()))

    def passed_bytes(self) -> tuple[list[int], list[int]]:
        """Count what has passed each link since it was made.

        Returns:
            For each port, in the order of `backend.ports`, the bytes of frames that were sent; and that were received.
        """
        found = [
            port.netlink.get_links(port.index)[0].get_attr("IFLA_STATS64") for port in self.backend.ports
        ]
        return [each["tx_bytes"] for each in found], [each["rx_bytes"] for each in found]

    @property
    def _ports_of_hosts(self) -> list[Port]:
        return self.backend.ports[: len(self.addresses)]

    def _metrics(self) -> dict[str, Any]:
        """What TCP takes from a host's route."""
        return {
            "cc_algo": self._congestion_control,
            "rto_min": round(RTO_MIN_MS * self.dilation),
            "lock": 1 << _RTO_MIN,  # TCP uses this metric only if it is locked
        }

    def shape(self, link: HostLinks | list[Link] | None) -> None:
        """Set what the hosts' connections can carry.

        Args:
            link: the link of every host, or the links of all sites, not dilated; or a list as of `links`; None: open
                the links.

        Raises:
            DdlbenchError: this kernel cannot make it.
        """
        with _told_in_words():
            self.backend.shape(link if link is None or isinstance(link, list) else self.links(link))

    def links(self, link: HostLinks) -> list[Link]:
        """List the links of the backend's ports.

        Args:
            link: the link of every host, or the links of all sites, not dilated.

        Returns:
            The links in the order of the ports: of every host, then of every direction between sites.
        """
        if isinstance(link, Link):
            return [link] * len(self.backend.ports)
        if isinstance(link, SharedCards):
            return [link.inside] * len(self.addresses) + [link.card] * (max(self.card_of) + 1)
        return [link.lans[site] for site in self.site_of] + list(link.wans)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()


@contextmanager
def _told_in_words() -> Iterator[None]:
    """Tell what the kernel refuses, and what helps."""
    try:
        yield
    except NetlinkError as error:
        raise DdlbenchError(
            f"the kernel refuses links of emulated hosts ({error.args[-1]}). It must know veth and tbf. As root:\n"
            "  modprobe -a veth sch_tbf"
        ) from error
    except OSError as error:
        raise DdlbenchError(
            f"the kernel refuses emulated hosts ({error}). {what_helps(str(error))}"
        ) from error


def _check_congestion_control(name: str) -> None:
    """Raise ConfigError if this kernel has no such algorithm; only root may load one, which this does then."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as endpoint:
        try:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except FileNotFoundError:
            ready = ", ".join(_AVAILABLE.read_text().split())
            raise ConfigError(
                f"congestion_control: this kernel has no {name!r} ready, but {ready}. "
                f"Ask for one of these, or load it as root:  modprobe tcp_{name}"
            ) from None
