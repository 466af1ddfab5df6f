"""The network interfaces of this machine: their kinds, speeds and names.

Names and addresses come from psutil, not from netifaces, which is archived since 2021 and has no wheel for Python 3.10
or newer. Of its successors, netifaces2 has had no release since February 2024, and the author of netifaces-plus advises
against it. psutil is maintained (7.2.2 of January 2026) and needed here anyway. All else comes from sysfs (the kernel's
Documentation/ABI/testing/sysfs-class-net).
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import psutil

from ddlbench.network.hca import SYS, Port, attribute, ports

_ETHERNET, _INFINIBAND, _LOOPBACK = "1", "32", "772"  # ARPHRD numbers (linux/if_arp.h)
_IFF_UP = 1
_COMPARED = len("00:" * 8)  # of hardware addresses: InfiniBand's are longer than some tools report


@dataclass(frozen=True)
class Interface:
    """A network interface.

    Attributes:
        kind: `loopback`, `ethernet` (a card, or a bond or VLAN of cards), `infiniband` (IPoIB), `wireless`, `virtual`
            (veth, bridge, tunnel, ...), or `unknown` if sysfs shows another network namespace.
        addresses: without link-local ones, which no other network can reach.
        speed_mbit: in Mbit/s, for IPoIB the rate of its port; None: the driver does not report it.
        mtu: in bytes.
        driver: the driver, or the kind of a virtual interface.
        state: the kernel's word for it (`up`, `down`, `dormant`, ...).
        hca: the RDMA port that the interface shares.
        master: the bond or bridge that it is a part of.
    """

    name: str
    kind: str
    addresses: tuple[str, ...] = ()
    speed_mbit: float | None = None
    mtu: int | None = None
    driver: str | None = None
    state: str = "unknown"
    hca: Port | None = None
    master: str | None = None

    @property
    def ipv4_address(self) -> str | None:
        """Its first IPv4 address; None if it has none."""
        return next((each for each in self.addresses if ":" not in each), None)


class Addresses(NamedTuple):
    """An interface's hardware address, and its internet addresses without link-local ones."""

    hardware: str
    internet: tuple[str, ...]


def interfaces(sys: Path = SYS) -> list[Interface]:
    """List every interface of the calling thread's network namespace.

    Args:
        sys: where sysfs is mounted.

    Returns:
        The interfaces, sorted by name.
    """
    found = {}
    for name, addresses in psutil.net_if_addrs().items():
        hardware = [each.address for each in addresses if each.family == socket.AF_PACKET]
        internet = [each.address for each in addresses if each.family in (socket.AF_INET, socket.AF_INET6)]
        reachable = tuple(each for each in internet if not ip_address(each.partition("%")[0]).is_link_local)
        found[name] = Addresses(next(iter(hardware), ""), reachable)
    return described(found, sys)


def described(addresses: Mapping[str, Addresses], sys: Path) -> list[Interface]:
    """Describe interfaces with the information in sysfs.

    Args:
        addresses: by the names of the interfaces.
        sys: where sysfs is mounted.

    Returns:
        One for each name, sorted by name.
    """
    of_netdev = {netdev: port for port in ports(sys) for netdev in port.netdevs}
    folder = sys / "class/net"
    return [
        _described(folder / name, known.internet, of_netdev.get(name))
        if _is_same(folder / name, known.hardware)
        else Interface(name, "unknown", known.internet)
        for name, known in sorted(addresses.items())
    ]


def _is_same(folder: Path, hardware: str) -> bool:
    """Return whether sysfs describes this interface, and not one of the same name in another network namespace."""
    return folder.is_dir() and attribute(folder / "address")[:_COMPARED] == hardware.lower()[:_COMPARED]


def _described(folder: Path, addresses: tuple[str, ...], port: Port | None) -> Interface:
    kind = _kind(folder)
    speed_mbit = float(attribute(folder / "speed") or -1)
    if kind == "infiniband" and port and port.rate_gbit:
        speed_mbit = port.rate_gbit * 1000
    is_up = int(attribute(folder / "flags") or "0", 0) & _IFF_UP
    return Interface(
        folder.name,
        kind,
        addresses,
        speed_mbit if speed_mbit > 0 else None,
        int(attribute(folder / "mtu") or 0) or None,
        _driver(folder),
        (attribute(folder / "operstate") or "unknown") if is_up else "down",
        port,
        _link(folder / "master"),
    )


def _kind(folder: Path) -> str:
    number = attribute(folder / "type")
    if number in (_LOOPBACK, _INFINIBAND):
        return "loopback" if number == _LOOPBACK else "infiniband"
    if number != _ETHERNET:
        return "virtual"
    if (folder / "wireless").exists() or (folder / "phy80211").exists():
        return "wireless"
    if (folder / "device").exists():
        return "ethernet"
    parts = (
        [part.resolve() for part in folder.glob("lower_*")] if _devtype(folder) in ("bond", "vlan") else []
    )
    return "ethernet" if parts and all(_kind(part) == "ethernet" for part in parts) else "virtual"


def _driver(folder: Path) -> str | None:
    return _link(folder / "device/driver") or _devtype(folder) or None


def _devtype(folder: Path) -> str:
    """Return the kind of a virtual interface (bond, vlan, bridge, vxlan, ...); empty if the driver reports none."""
    lines = attribute(folder / "uevent").splitlines()
    return next((line.partition("=")[2] for line in lines if line.startswith("DEVTYPE=")), "")


def _link(path: Path) -> str | None:
    return path.resolve().name if path.exists() else None


COLUMNS = ("name", "kind", "speed", "mtu", "driver", "state", "hca", "addresses")


def table(found: Sequence[Interface]) -> str:
    """Format interfaces as a table for people.

    Args:
        found: the interfaces.

    Returns:
        One interface in each line, under COLUMNS; `-` for what is not known.
    """
    rows = [COLUMNS, *(_row(each) for each in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(found: Interface) -> tuple[str, ...]:
    hca = f"{found.hca.name} {found.hca.link_layer} {found.hca.state}" if found.hca else "-"
    state = f"{found.state}, part of {found.master}" if found.master else found.state
    texts = (found.name, found.kind, speed(found.speed_mbit), str(found.mtu or "-"), found.driver or "-")
    return (*texts, state, hca, " ".join(found.addresses) or "-")


def speed(speed_mbit: float | None) -> str:
    """Format a speed for people.

    Args:
        speed_mbit: in Mbit/s; None: it is not known.

    Returns:
        `100 Gbit/s`, `100 Mbit/s`, or `-` if it is not known.
    """
    if speed_mbit is None:
        return "-"
    return f"{speed_mbit / 1000:g} Gbit/s" if speed_mbit >= 1000 else f"{speed_mbit:g} Mbit/s"
