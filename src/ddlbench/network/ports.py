"""The ends of links: the interfaces that send over a link, and how the kernel groups segments there."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import IoctlEthtool

from ddlbench.network.link import Link
from ddlbench.system.calls import open_sysfs
from ddlbench.system.namespaces import entered

_TSO = "tcp-segmentation-offload"
_GROUPING = ("generic-segmentation-offload", "generic-receive-offload")


@dataclass(frozen=True)
class Egress:
    """An interface that sends over a link.

    Attributes:
        netlink: a netlink socket of the interface's namespace.
        index: the interface's number there.
    """

    netlink: IPRoute
    index: int


@dataclass(frozen=True)
class Port:
    """Where a link enters a router.

    Attributes:
        router: the router's namespace, a file descriptor.
        name: the router's interface to the link.
        namespace: the namespace of the sending end, a host or another router.
        netlink: a netlink socket of the sending end's namespace.
        device: the sending end's interface.
        index: the number of that interface.
        back: the router's interface to a host, which sends as fast as the host may; None between routers, where each
            direction is a link of its own.
    """

    router: int
    name: str
    namespace: int
    netlink: IPRoute
    device: str
    index: int
    back: Egress | None = None

    @property
    def egresses(self) -> tuple[Egress, ...]:
        """The interfaces that send over the link: out and, if it leads to a host, back."""
        out = Egress(self.netlink, self.index)
        return (out, self.back) if self.back else (out,)


def set_offload(ports: Sequence[Port], links: Sequence[Link] | None, *, steered: bool = False) -> None:
    """Let the kernel handle trains of segments as one packet, unless packets are lost: a drop would take a whole train.

    The sending end of a link splits its trains (no TSO). Only then does the router receive them by NAPI, on one core
    at a time. Otherwise it receives each on whichever core sends or runs a timer, and packets overtake each other. On
    open links trains stay whole, and on steered ones (`steer`). An open link has no queue that would hold
    back what does not fit into NAPI's ring of 256 frames; TCP would lose packets there, and start with small windows on
    the next link.

    Args:
        ports: the ports of all links.
        links: the link of each port; None: the links are open (unshaped).
        steered: one core receives all that comes over a link.
    """
    whole = links is None or not any(link.is_lossy for link in links)
    grouping = dict.fromkeys(_GROUPING, whole)
    for port in ports:
        _set_flags(port.router, port.name, {_TSO: whole, **grouping})
    for port in ports:
        _set_flags(port.namespace, port.device, {_TSO: links is None or (steered and whole), **grouping})


def _set_flags(namespace: int, device: str, flags: dict[str, bool]) -> None:
    with entered(namespace):
        ethtool = IoctlEthtool(device)
    for flag, value in flags.items():
        ethtool.set_offload_flag(flag, int(value))
    ethtool.close()


def steer(ports: Sequence[Port]) -> bool:
    """Let one core receive all that comes over a link, the cores of this machine by turns.

    A router that receives an interface's trains of segments on whichever core sends them may forward the second before
    the first. If one core receives all of them, they stay in order, and none needs to be split and joined for that.

    Args:
        ports: the ends of all links.

    Returns:
        Whether it is done; False if this user may not, or the kernel cannot (RPS).
    """
    cores = sorted(os.sched_getaffinity(0))
    try:
        for number, port in enumerate(ports):
            with entered(port.router):
                sysfs = open_sysfs()
            try:
                mask = core_mask(cores[number % len(cores)])
                _write(f"class/net/{port.name}/queues/rx-0/rps_cpus", mask.encode(), sysfs)
            finally:
                os.close(sysfs)
    except OSError:
        return False
    return True


def core_mask(core: int) -> str:
    """Write a core as a set of cores.

    Args:
        core: its number.

    Returns:
        Hexadecimal digits with a comma after each 32 bits, without which the kernel takes none beyond.
    """
    return f"{1 << core % 32:x}" + ",00000000" * (core // 32)


def _write(path: str, value: bytes, folder: int) -> None:
    file = os.open(path, os.O_WRONLY, dir_fd=folder)
    try:
        os.write(file, value)
    finally:
        os.close(file)
