"""Emulated hosts: network namespaces in a star around a router, one star for each site.

Each host is a network namespace whose `eth0` leads to its site's router. The first site's router is the caller's own
namespace, which should be a private sandbox (see `ddlbench.sandbox.sandbox`). The router of every other site is a
namespace of its own, and a cable connects each pair of routers. Addresses are /32 and routed: no host needs another's
hardware address. When the process ends, even by SIGKILL, the kernel removes all of it.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyroute2 import IPRoute

from ddlbench.network.hosts import NETWORK
from ddlbench.network.link import Link
from ddlbench.network.ports import Egress, Port
from ddlbench.network.shaping import Backend, choose_backend
from ddlbench.network.sites import Sites, directions, site_of
from ddlbench.network.sizes import LONGEST_SEGMENTS
from ddlbench.network.steering import steer
from ddlbench.system.namespaces import entered, new_network_namespace, own_namespace

_GATEWAY = "169.254.1.1"
# Within the hosts' network, so that every host has a route to them.
_ROUTER, _SINK = "10.66.254.{}", "10.66.255.{}"
_LINK_SCOPE = 253
_RTO_MIN = 13  # its number among the metrics of a route (linux/rtnetlink.h)
# TCP enlarges its buffers over time. So the first dozen steps on a link would be slower than all later ones, and depend
# on earlier links. Long training ends with large buffers; so they are large from the start.
_SOCKET_BUFFER_BYTES = 4 << 20
_LARGEST_SOCKET_BUFFER_BYTES = 128 << 20
RTO_MIN_MS = (
    200  # the kernel's default of TCP's shortest retransmission time-out; time dilation stretches it too
)


@dataclass(frozen=True)
class Sink:
    """A receiver at a site that is not a host, on a link that is never shaped: packets to it have passed the router.

    Attributes:
        namespace: its network namespace, a file descriptor.
        address: its IPv4 address.
    """

    namespace: int
    address: str


@dataclass(frozen=True)
class _Router:
    number: int  # of its site, from 1
    namespace: int
    netlink: IPRoute

    @property
    def address(self) -> str:
        return _ROUTER.format(self.number)

    @property
    def cable(self) -> str:
        """The name, on other routers, of the interface that leads to this one."""
        return f"w{self.number}"


class Star:
    """Emulated hosts on one site or on several. Their links are open (unshaped) at first.

    Args:
        addresses: the IPv4 address of each host, within `hosts.NETWORK`.
        congestion_control: TCP's algorithm on every route (`cubic`, `reno`, ...).
        dilation: how much slower time runs; it changes bandwidth, latency and TCP's shortest retransmission time-out.
        sites: how many; hosts are divided among them (`sites.site_of`).
        longest_trains: as of `shaping.Backend`.

    Attributes:
        site_of: the number of each host's site.
        namespaces: each host's network namespace, a file descriptor.
        sinks: one for each site; none if there is one site.
        backend: what makes the links.

    Raises:
        OSError: the kernel refused.
    """

    def __init__(
        self,
        addresses: list[str],
        *,
        congestion_control: str,
        dilation: float = 1.0,
        sites: int = 1,
        longest_trains: bool = False,
    ) -> None:
        self.addresses = addresses
        self.dilation = dilation
        self.site_of = [site_of(host, hosts=len(addresses), sites=sites) for host in range(len(addresses))]
        self.namespaces: list[int] = []
        self._cleanup = ExitStack()
        with ExitStack() as on_error:
            on_error.callback(self._cleanup.close)
            self._congestion_control = congestion_control
            metrics = self._metrics()
            routers = [self._add_router(site) for site in range(sites)]
            ports = [
                self._add_host(routers[site], f"p{number}", address, metrics)
                for number, (address, site) in enumerate(zip(addresses, self.site_of, strict=True), 1)
            ]
            self.namespaces += [port.namespace for port in ports]
            self.sinks = [self._add_sink(router) for router in routers] if sites > 1 else []
            self.backend: Backend = self._cleanup.enter_context(
                choose_backend(ports + self._join(routers), dilation)
            )
            self.backend.longest_trains = longest_trains
            if longest_trains:
                self.backend.steered = steer(self.backend.ports)
                for namespace in self.namespaces:
                    with entered(namespace):  # else TCP makes trains of a millisecond of the dilated rate
                        Path("/proc/sys/net/ipv4/tcp_min_tso_segs").write_text(str(LONGEST_SEGMENTS))
            on_error.pop_all()

    def dilate(self, dilation: float) -> None:
        """Let time run more slowly, or faster, from now on.

        Args:
            dilation: the factor; the links must be open.
        """
        self.dilation = self.backend.dilation = dilation
        for port in self._ports_of_hosts:
            port.netlink.route("replace", **_route(port.index, self._metrics()))

    def bytes_of_hosts(self) -> list[int]:
        """Count what each host has sent, and then what each has received, in bytes of frames."""
        counts = [
            port.netlink.get_links(port.index)[0].get_attr("IFLA_STATS64") for port in self._ports_of_hosts
        ]
        return [each["tx_bytes"] for each in counts] + [each["rx_bytes"] for each in counts]

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

    def shape(self, link: Link | Sites | None) -> None:
        """Set what the hosts' connections can carry.

        Args:
            link: the link of every host, or the links of all sites, not dilated; None: open the links.
        """
        self.backend.shape(None if link is None else self.links(link))

    def links(self, link: Link | Sites) -> list[Link]:
        """List the links of the backend's ports.

        Args:
            link: the link of every host, or the links of all sites, not dilated.

        Returns:
            The links in the order of the ports: of every host, then of every direction between sites.
        """
        if isinstance(link, Link):
            return [link] * len(self.backend.ports)
        return [link.lans[site] for site in self.site_of] + list(link.wans)

    def _add_router(self, site: int) -> _Router:
        namespace = new_network_namespace() if site else own_namespace()
        self._cleanup.callback(os.close, namespace)
        with entered(namespace):
            _write("/proc/sys/net/ipv4/ip_forward", "1")
            netlink = self._cleanup.enter_context(IPRoute())
        netlink.link("set", index=1, state="up")
        return _Router(site + 1, namespace, netlink)

    def _join(self, routers: list[_Router]) -> list[Port]:
        """Connect each pair of routers by a cable, with routes to all addresses behind it; its directions as ports."""
        ends: dict[tuple[int, int], int] = {}  # (from, to) -> the sending interface
        for one, other in combinations(range(len(routers)), 2):
            ends |= self._add_cable(routers, one, other)
        sites = [*zip(self.addresses, self.site_of, strict=True)]
        sites += [(sink.address, site) for site, sink in enumerate(self.sinks)]
        for (near, far), index in ends.items():
            for address in (address for address, site in sites if site == far):
                routers[near].netlink.route(
                    "add", dst=f"{address}/32", gateway=routers[far].address, oif=index
                )
        return [
            Port(
                router=routers[far].namespace,
                name=routers[near].cable,
                namespace=routers[near].namespace,
                netlink=routers[near].netlink,
                device=routers[far].cable,
                index=ends[near, far],
            )
            for near, far in directions(len(routers))
        ]

    def _add_cable(self, routers: list[_Router], one: int, other: int) -> dict[tuple[int, int], int]:
        ends = {}
        first, second = routers[one], routers[other]
        peer = {"ifname": first.cable, "net_ns_fd": second.namespace}
        first.netlink.link("add", ifname=second.cable, kind="veth", peer=peer)
        for near, far in ((one, other), (other, one)):
            netlink = routers[near].netlink
            ends[near, far] = index = netlink.link_lookup(ifname=routers[far].cable)[0]
            netlink.link("set", index=index, state="up")
            netlink.addr("add", index=index, address=routers[near].address, prefixlen=32)
            netlink.route("add", dst=f"{routers[far].address}/32", oif=index, scope=_LINK_SCOPE)
        self._cleanup.callback(first.netlink.link, "del", index=ends[one, other])
        return ends

    def _add_sink(self, router: _Router) -> Sink:
        address = _SINK.format(router.number)
        return Sink(self._add_host(router, "sink", address, {}).namespace, address)

    def _add_host(self, router: _Router, name: str, address: str, metrics: Mapping[str, Any]) -> Port:
        namespace = new_network_namespace()
        self._cleanup.callback(os.close, namespace)
        peer = {"ifname": "eth0", "net_ns_fd": namespace}
        router.netlink.link("add", ifname=name, kind="veth", peer=peer)
        outer = router.netlink.link_lookup(ifname=name)[0]
        self._cleanup.callback(router.netlink.link, "del", index=outer)
        router.netlink.link("set", index=outer, state="up")
        router.netlink.addr("add", index=outer, address=_GATEWAY, prefixlen=32)
        router.netlink.route("add", dst=f"{address}/32", oif=outer, scope=_LINK_SCOPE)
        with entered(namespace):
            host = self._cleanup.enter_context(IPRoute())
            inner = host.link_lookup(ifname="eth0")[0]
            for index in (1, inner):
                host.link("set", index=index, state="up")
            host.addr("add", index=inner, address=address, prefixlen=32)
            host.route("add", dst=f"{_GATEWAY}/32", oif=inner, scope=_LINK_SCOPE)
            host.route("add", **_route(inner, metrics))
            for buffer in ("tcp_rmem", "tcp_wmem"):
                sizes = f"4096 {_SOCKET_BUFFER_BYTES} {_LARGEST_SOCKET_BUFFER_BYTES}"
                _write(f"/proc/sys/net/ipv4/{buffer}", sizes)
            # A new connection must not start with the metrics of an older one on another link.
            _write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")
        return Port(router.namespace, name, namespace, host, "eth0", inner, Egress(router.netlink, outer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()


def _route(index: int, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """A host's route to other hosts alone: with a default route, programs would wait for a name server."""
    return {"dst": NETWORK, "gateway": _GATEWAY, "oif": index, "metrics": dict(metrics)}


def _write(path: str, value: str) -> None:
    Path(path).write_text(value)
