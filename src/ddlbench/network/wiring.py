"""The wires of a star: routers, the hosts at them, and cables between them; all are gone when the wiring is closed."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

from ddlbench.network.hosts import NETWORK
from ddlbench.network.ports import Egress, Port
from ddlbench.network.sites import directions
from ddlbench.system.namespaces import entered, new_network_namespace, own_namespace

GATEWAY, GATEWAY_OF_CARDS = "169.254.1.1", "169.254.1.2"
# Within the hosts' network, so that every host has a route to them.
_ROUTER, _SINK = "10.66.254.{}", "10.66.255.{}"
_LINK_SCOPE = 253
# TCP enlarges its buffers over time. So the first dozen steps on a link would be slower than all later ones, and depend
# on earlier links. Long training ends with large buffers; so they are large from the start.
_SOCKET_BUFFER_BYTES = 4 << 20
_LARGEST_SOCKET_BUFFER_BYTES = 128 << 20


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
class Router:
    """A namespace that forwards."""

    number: int  # from 1
    namespace: int
    netlink: IPRoute

    @property
    def address(self) -> str:
        """Its own IPv4 address."""
        return _ROUTER.format(self.number)

    @property
    def cable(self) -> str:
        """The name, on other routers, of the interface that leads to this one."""
        return f"w{self.number}"


class Wiring:
    """Makes namespaces and the wires between them; `close` removes them."""

    def __init__(self) -> None:
        self._cleanup = ExitStack()

    def close(self) -> None:
        """Remove all wires; the namespaces end with them."""
        self._cleanup.close()

    def router(self, number: int, *, is_own: bool) -> Router:
        """Make a router.

        Args:
            number: from 1.
            is_own: it is the caller's own namespace.

        Returns:
            The router, at which there is nothing yet.
        """
        namespace = own_namespace() if is_own else new_network_namespace()
        self._cleanup.callback(os.close, namespace)
        with entered(namespace):
            _write("/proc/sys/net/ipv4/ip_forward", "1")
            netlink = self._cleanup.enter_context(IPRoute())
        netlink.link("set", index=1, state="up")
        return Router(number, namespace, netlink)

    def router_behind_card(
        self, core: Router, number: int, addresses: Sequence[str], metrics: Mapping[str, Any]
    ) -> tuple[Router, Port]:
        """Make the router of a host, and its network card at the router of all hosts.

        Args:
            core: the router of all hosts.
            number: of the new router.
            addresses: that are behind it.
            metrics: of its route to other hosts.

        Returns:
            The router, and the port of its card.
        """
        name = f"c{number}"
        port = self.host(core, name, _ROUTER.format(number), metrics, GATEWAY_OF_CARDS)
        with entered(port.namespace):
            _write("/proc/sys/net/ipv4/ip_forward", "1")
        assert port.back is not None
        for address in addresses:
            core.netlink.route(
                "add", dst=f"{address}/32", gateway=_ROUTER.format(number), oif=port.back.index
            )
        return Router(number, port.namespace, port.netlink), port

    def join(self, routers: Sequence[Router], addresses: Mapping[int, Sequence[str]]) -> list[Port]:
        """Connect each pair of routers by a cable, with routes to all addresses behind it.

        Args:
            routers: of the sites.
            addresses: of the hosts and sinks of each site, by its number from 0.

        Returns:
            The directions of all cables, as ports.
        """
        ends: dict[tuple[int, int], int] = {}  # (from, to) -> the sending interface
        for one, other in combinations(range(len(routers)), 2):
            ends |= self._cable(routers, one, other)
        for (near, far), index in ends.items():
            for address in addresses[far]:
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

    def _cable(self, routers: Sequence[Router], one: int, other: int) -> dict[tuple[int, int], int]:
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

    def sink(self, router: Router) -> Sink:
        """Make a sink at a router.

        Args:
            router: where it is.

        Returns:
            The sink.
        """
        address = _SINK.format(router.number)
        return Sink(self.host(router, "sink", address, {}).namespace, address)

    def host(
        self, router: Router, name: str, address: str, metrics: Mapping[str, Any], gateway: str = GATEWAY
    ) -> Port:
        """Make a host at a router.

        Args:
            router: where it is.
            name: of the router's interface to it.
            address: of the host.
            metrics: of its route to other hosts.
            gateway: the address of the router on that interface.

        Returns:
            The port of the host's link.
        """
        namespace = new_network_namespace()
        self._cleanup.callback(os.close, namespace)
        peer = {"ifname": "eth0", "net_ns_fd": namespace}
        router.netlink.link("add", ifname=name, kind="veth", peer=peer)
        outer = router.netlink.link_lookup(ifname=name)[0]
        self._cleanup.callback(router.netlink.link, "del", index=outer)
        router.netlink.link("set", index=outer, state="up")
        router.netlink.addr("add", index=outer, address=gateway, prefixlen=32)
        router.netlink.route("add", dst=f"{address}/32", oif=outer, scope=_LINK_SCOPE)
        with entered(namespace):
            host = self._cleanup.enter_context(IPRoute())
            inner = host.link_lookup(ifname="eth0")[0]
            for index in (1, inner):
                host.link("set", index=index, state="up")
            host.addr("add", index=inner, address=address, prefixlen=32)
            host.route("add", dst=f"{gateway}/32", oif=inner, scope=_LINK_SCOPE)
            host.route("add", **route(inner, metrics, gateway))
            for buffer in ("tcp_rmem", "tcp_wmem"):
                sizes = f"4096 {_SOCKET_BUFFER_BYTES} {_LARGEST_SOCKET_BUFFER_BYTES}"
                _write(f"/proc/sys/net/ipv4/{buffer}", sizes)
            # A new connection must not start with the metrics of an older one on another link.
            _write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")
        return Port(router.namespace, name, namespace, host, "eth0", inner, Egress(router.netlink, outer))


def route(index: int, metrics: Mapping[str, Any], gateway: str = GATEWAY) -> dict[str, Any]:
    """Describe a host's route to other hosts alone: with a default route, programs would wait for a name server.

    Args:
        index: of the host's interface.
        metrics: of the route.
        gateway: the router's address.

    Returns:
        The arguments of `IPRoute.route`.
    """
    return {"dst": NETWORK, "gateway": gateway, "oif": index, "metrics": dict(metrics)}


def _write(path: str, value: str) -> None:
    Path(path).write_text(value)
