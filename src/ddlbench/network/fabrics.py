"""Which interface carries a fabric: it is chosen by the rule below.

loopback     the loopback interface
emulated     eth0 of an emulated host, which `star` makes
ethernet     a card, or a bond or VLAN of cards, that is up, has an IPv4 address and is no part of a bond or bridge
infiniband   an IPoIB interface with the same properties, above an active InfiniBand port (RoCE is ethernet)

If there are several, the fastest is taken, provided that the speed of each is known; of equally fast ones, the one
with a default route. If more than one is left, the first by name is taken for infiniband, as the ports of a node for
GPUs are alike and NCCL uses all of them (`infiniband_ports`); otherwise it is an error, and the configuration must name
one (`interfaces`). A wireless or virtual interface carries ethernet only if the configuration names it.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from ddlbench.errors import ConfigError, DdlbenchError, nearest
from ddlbench.network.hca import SYS, ports
from ddlbench.network.interfaces import Interface, interfaces, speed, table

Fabric = Literal["loopback", "emulated", "ethernet", "infiniband"]
FABRICS: tuple[Fabric, ...] = get_args(Fabric)
NAMEABLE = ("ethernet", "infiniband")  # fabrics whose interface the configuration can name
OF_EMULATED_HOSTS = Interface("eth0", "virtual")
_TAKES: Mapping[str, str] = {
    "loopback": "the loopback interface",
    "ethernet": "an Ethernet card (or a bond or VLAN of cards) that is up and has an IPv4 address",
    "infiniband": "an IPoIB interface that is up, has an IPv4 address and lies on an active InfiniBand port",
}
_CARRIES: Mapping[str, tuple[str, ...]] = {  # the kinds of interface that may be named for a fabric
    "loopback": ("loopback",),
    "ethernet": ("ethernet", "wireless", "virtual", "unknown"),
    "infiniband": ("infiniband",),
}


class NoInterface(DdlbenchError):
    """This machine has no interface for a fabric."""


def interface_of(fabric: str, named: Mapping[str, str | None]) -> Interface:
    """Find the interface that carries a fabric in the calling thread's network namespace.

    Args:
        fabric: one of FABRICS.
        named: fabric -> name of an interface; None or absent: the rule chooses.

    Returns:
        The interface.

    Raises:
        NoInterface: no interface can carry the fabric; with a list of all interfaces.
        ConfigError: the named interface cannot, or several are equally good; with a list.
    """
    if fabric == "emulated":
        return OF_EMULATED_HOSTS
    return choose(fabric, interfaces(), default_route=default_route(), named=named.get(fabric))


def infiniband_ports(
    interface: Interface, named: Mapping[str, str | None], sys: Path = SYS
) -> tuple[str, ...]:
    """List the ports that NCCL may use beside an interface: all active ones of its rate, unless it was named.

    A port needs no interface of its own for that: NCCL only meets at an address, and then talks by RDMA.

    Args:
        interface: that carries the fabric.
        named: as for `interface_of`.
        sys: where sysfs is mounted.

    Returns:
        Their names in NCCL (`mlx5_0:1`); none where the interface is not InfiniBand's.
    """
    below = interface.hca
    if below is None or interface.kind != "infiniband":
        return ()
    if named.get("infiniband"):
        return (below.name,)
    alike = (below.link_layer, below.rate_gbit, "ACTIVE")
    return tuple(each.name for each in ports(sys) if (each.link_layer, each.rate_gbit, each.state) == alike)


def choose(
    fabric: str, found: Sequence[Interface], *, default_route: Collection[str] = (), named: str | None = None
) -> Interface:
    """Choose the interface that carries a fabric, by the rule of this module.

    Args:
        fabric: one of FABRICS, except `emulated`.
        found: the interfaces to choose from.
        default_route: names of those that a default route leads to.
        named: the name that the configuration has for this fabric; None: the rule chooses.

    Returns:
        The interface.

    Raises:
        NoInterface: as `interface_of`.
        ConfigError: as `interface_of`.
    """
    if named is not None:
        return _named(fabric, found, named)
    fit = [each for each in found if each.kind == fabric and _why_unusable(fabric, each) is None]
    if not fit:
        raise NoInterface(
            f"fabric {fabric}: this machine has no interface for it; it takes {_TAKES[fabric]}:\n"
            f"{_indented(found)}{_how_to_name(fabric)}"
        )
    all_known = all(each.speed_mbit is not None for each in fit)
    ranks = {
        each.name: ((each.speed_mbit or 0.0) if all_known else 0.0, each.name in default_route)
        for each in fit
    }
    best = [each for each in fit if ranks[each.name] == max(ranks.values())]
    if fabric == "infiniband" and all_known:
        return min(best, key=lambda each: each.name)
    if len(best) > 1:
        names = ", ".join(each.name for each in best)
        why = speed(best[0].speed_mbit) if all_known else "not all tell their speed"
        raise ConfigError(
            f"fabric {fabric}: {names} are equally good ({why}; no default route tells them apart):\n"
            f"{_indented(best)}{_how_to_name(fabric)}"
        )
    return best[0]


def default_route() -> set[str]:
    """Return the names of the interfaces that a default route leads to, in the calling thread's network namespace."""
    from pyroute2 import IPRoute  # importing it takes a quarter of a second

    with IPRoute() as network:
        leading = {route.get_attr("RTA_OIF") for route in network.get_default_routes()}
        return {link.get_attr("IFLA_IFNAME") for link in network.get_links() if link["index"] in leading}


def _named(fabric: str, found: Sequence[Interface], named: str) -> Interface:
    where = f"interfaces.{fabric} of the configuration: {named!r}"
    chosen = next((each for each in found if each.name == named), None)
    if chosen is None:
        hint = nearest(named, [each.name for each in found])
        raise ConfigError(f"{where} is no interface of this machine{hint}. There are:\n{_indented(found)}")
    if chosen.kind not in _CARRIES[fabric]:
        raise ConfigError(
            f"{where} is {chosen.kind}; results over it would be called {fabric} and not be it. There are:\n"
            f"{_indented(found)}"
        )
    if reason := _why_unusable(fabric, chosen):
        raise ConfigError(f"{where} {reason}:\n{_indented([chosen])}")
    return chosen


def _why_unusable(fabric: str, each: Interface) -> str | None:
    """Return why the interface cannot carry anything at present; None if it can."""
    if fabric == "loopback":
        return None
    if each.master:
        return f"is a part of {each.master}, which is what can be named"
    if each.state not in ("up", "unknown"):  # the kernel reports `unknown` for what has no carrier (a tunnel)
        return f"is {each.state}"
    if each.ipv4_address is None:
        return "has no IPv4 address, without which not every framework works: give it one, or name another"
    if fabric == "infiniband" and (each.hca is None or each.hca.state != "ACTIVE"):
        return f"lies on a port that is {each.hca.state}" if each.hca else "lies on no port that is known"
    return None


def _how_to_name(fabric: str) -> str:
    if fabric not in NAMEABLE:
        return ""
    return f"\nTo name one, set interfaces.{fabric} in the configuration (config/config.yaml)."


def _indented(found: Sequence[Interface]) -> str:
    return "\n".join(f"  {line}" for line in table(found).splitlines())
