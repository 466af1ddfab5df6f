"""RDMA ports of this machine, InfiniBand's and those of Ethernet cards (RoCE), from /sys/class/infiniband.

The kernel's Documentation/ABI/stable/sysfs-class-infiniband describes these files.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SYS = Path("/sys")
_TYPE_OF = {"InfiniBand": "32", "Ethernet": "1"}  # ARPHRD numbers (linux/if_arp.h)


@dataclass(frozen=True)
class Port:
    """A port of a host channel adapter.

    Attributes:
        device: the adapter (`mlx5_0`).
        number: of the port, from 1.
        link_layer: `InfiniBand` or `Ethernet`.
        rate_gbit: in Gbit/s; None: the driver does not report it.
        state: `ACTIVE`, `INIT`, `DOWN`, ...
        netdevs: the network interfaces whose packets leave through this port.
    """

    device: str
    number: int
    link_layer: str
    rate_gbit: float | None
    state: str
    netdevs: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name in NCCL and UCX: `mlx5_0:1`."""
        return f"{self.device}:{self.number}"


def ports(sys: Path = SYS) -> list[Port]:
    """List every port of every adapter.

    Args:
        sys: where sysfs is mounted.

    Returns:
        The ports, sorted by adapter and number; none if no RDMA driver is loaded.
    """
    folders = [port for device in _entries(sys / "class/infiniband") for port in _entries(device / "ports")]
    return [_port(folder) for folder in folders]


def _port(folder: Path) -> Port:
    device, number = folder.parent.parent, int(folder.name)
    rate = re.match(r"[\d.]+", attribute(folder / "rate"))  # "100 Gb/sec (4X EDR)"
    link_layer = attribute(folder / "link_layer") or "InfiniBand"
    return Port(
        device.name,
        number,
        link_layer,
        float(rate[0]) if rate else None,
        attribute(folder / "state").rpartition(": ")[2],  # "4: ACTIVE"
        tuple(sorted({*_named_by_addresses(folder), *_of_same_card(device, number, link_layer)})),
    )


def _named_by_addresses(port: Path) -> Iterator[str]:
    """Yield the interfaces that a RoCE port's addresses belong to; bonds are found in this way too."""
    for entry in _entries(port / "gid_attrs/ndevs"):
        if name := attribute(entry):
            yield name


def _of_same_card(device: Path, number: int, link_layer: str) -> Iterator[str]:
    """Yield the interfaces of the same card: all if it has one port, else those that have this port's number."""
    alone = len(_entries(device / "ports")) == 1
    for interface in _entries(device / "device/net"):
        numbers = [
            attribute(interface / name) for name in ("dev_port", "dev_id")
        ]  # the latter in older drivers
        index = max((int(text, 0) for text in numbers if text), default=0)
        fits = attribute(interface / "type") == _TYPE_OF.get(link_layer)
        if fits and (alone or index + 1 == number):
            yield interface.name


def attribute(file: Path) -> str:
    """Read a file of sysfs.

    Args:
        file: its path.

    Returns:
        The content without white space at its ends; empty if there is no such file, or the driver does not know it.
    """
    try:
        return file.read_text().strip()
    except OSError:  # for instance `speed` of a link that is down
        return ""


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
