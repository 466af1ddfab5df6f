"""Emulated hosts: a routed star of network namespaces around the namespace of the calling process.

Each host is a network namespace whose `eth0` leads to the router (the caller's own namespace, which should be a private
sandbox: see `ddlbench.runtime.sandbox`). Addresses are /32 and routed, so that no host needs to know another's hardware
address. When the process ends, by SIGKILL too, the kernel removes all of it.
"""

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from pyroute2 import IPRoute

from ddlbench.network.hosts import NETWORK
from ddlbench.network.link import Link
from ddlbench.network.namespaces import entered, new_network_namespace
from ddlbench.network.shaping import Backend, Port, choose_backend

_GATEWAY = "169.254.1.1"
_LINK_SCOPE = 253
_RTO_MIN = 13  # its number among the metrics of a route (linux/rtnetlink.h)
# TCP lets its buffers grow as it goes: a link's first dozen steps would be slower than all that come after, and depend
# on the links before it. Long training ends with large ones; so they are large from the start.
_SOCKET_BUFFER_BYTES = 4 << 20
_LARGEST_SOCKET_BUFFER_BYTES = 128 << 20
RTO_MIN_MS = 200  # the kernel's default, which time dilation must stretch too


class Star:
    """`count` emulated hosts, their links open (unshaped) at first.

    `congestion_control` is chosen on every route. `dilation` slows down all that it links: bandwidth, latency and TCP's
    shortest retransmission time-out. Raises OSError where the kernel refuses.
    """

    def __init__(self, addresses: list[str], *, congestion_control: str, dilation: float = 1.0) -> None:
        self.addresses = addresses
        self.dilation = dilation
        self.namespaces: list[int] = []
        self._cleanup = ExitStack()
        with ExitStack() as on_error:
            on_error.callback(self._cleanup.close)
            _write("/proc/sys/net/ipv4/ip_forward", "1")
            router = self._cleanup.enter_context(IPRoute())
            router.link("set", index=1, state="up")
            metrics = {
                "cc_algo": congestion_control,
                "rto_min": round(RTO_MIN_MS * dilation),
                "lock": 1 << _RTO_MIN,  # TCP heeds this one only if it is locked
            }
            ports = [
                self._add_host(router, number, address, metrics)
                for number, address in enumerate(addresses, 1)
            ]
            self.backend: Backend = self._cleanup.enter_context(choose_backend(ports, dilation))
            on_error.pop_all()

    def shape(self, link: Link | None) -> None:
        """Give every host this link, dilated, from now on; None opens the links again."""
        self.backend.shape(link)

    def _add_host(self, router: IPRoute, number: int, address: str, metrics: dict[str, object]) -> Port:
        namespace = new_network_namespace()
        self._cleanup.callback(os.close, namespace)
        self.namespaces.append(namespace)
        name = f"p{number}"
        router.link("add", ifname=name, kind="veth", peer={"ifname": "eth0", "net_ns_fd": namespace})
        outer = router.link_lookup(ifname=name)[0]
        self._cleanup.callback(router.link, "del", index=outer)
        router.link("set", index=outer, state="up")
        router.addr("add", index=outer, address=_GATEWAY, prefixlen=32)
        router.route("add", dst=f"{address}/32", oif=outer, scope=_LINK_SCOPE)
        with entered(namespace):
            host = self._cleanup.enter_context(IPRoute())
            inner = host.link_lookup(ifname="eth0")[0]
            for index in (1, inner):
                host.link("set", index=index, state="up")
            host.addr("add", index=inner, address=address, prefixlen=32)
            host.route("add", dst=f"{_GATEWAY}/32", oif=inner, scope=_LINK_SCOPE)
            # Only to other hosts: a name server that seems to be reachable would be waited for.
            host.route("add", dst=NETWORK, gateway=_GATEWAY, oif=inner, metrics=metrics)
            for buffer in ("tcp_rmem", "tcp_wmem"):
                sizes = f"4096 {_SOCKET_BUFFER_BYTES} {_LARGEST_SOCKET_BUFFER_BYTES}"
                _write(f"/proc/sys/net/ipv4/{buffer}", sizes)
            # A new connection starts from nothing, not from what an older one met on another link.
            _write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")
        return Port(name, namespace, host, inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()


def _write(path: str, value: str) -> None:
    Path(path).write_text(value)
