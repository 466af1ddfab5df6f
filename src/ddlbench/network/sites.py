"""Sites: groups of hosts. Each site has a LAN; each pair of sites has a WAN in each direction."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from ddlbench.network.link import Link


@dataclass(frozen=True)
class Sites:
    """The links of hosts on several sites.

    Attributes:
        names: of the sites, in order.
        lans: for each site, the link of every one of its hosts.
        wans: one link for each of `directions`, which all hosts of the two sites share.
    """

    names: tuple[str, ...]
    lans: tuple[Link, ...]
    wans: tuple[Link, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Sites":
        """Rebuild sites from JSON data.

        Args:
            data: what `as_dict` returned.

        Returns:
            Equal sites.
        """
        names = tuple(data["sites"])
        return cls(
            names,
            tuple(Link(**data["lans"][name]) for name in names),
            tuple(Link(**data["wans"][direction_name(names, pair)]) for pair in directions(len(names))),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the sites as JSON data.

        Returns:
            {sites: names in order, lans: {name: link}, wans: {name -> name: link}}; a link as of `Link.as_dict`.
        """
        ways = (direction_name(self.names, pair) for pair in directions(len(self.names)))
        return {
            "sites": list(self.names),
            "lans": {name: lan.as_dict() for name, lan in zip(self.names, self.lans, strict=True)},
            "wans": {way: wan.as_dict() for way, wan in zip(ways, self.wans, strict=True)},
        }

    def __str__(self) -> str:
        return f"between the sites {', '.join(self.names)}"

    @property
    def is_lossy(self) -> bool:
        """Whether packets get lost on any link."""
        return any(link.is_lossy for link in (*self.lans, *self.wans))


@dataclass(frozen=True)
class SharedCards:
    """The links of hosts whose workers share a network card.

    Attributes:
        card: the link of each host.
        inside: the link of each worker to the others of its host, which it passes on its way to the card too.
    """

    card: Link
    inside: Link

    def as_dict(self) -> dict[str, Any]:
        """Return the links as JSON data."""
        return {"card": self.card.as_dict(), "inside": self.inside.as_dict()}

    def __str__(self) -> str:
        return f"{self.card}, and {self.inside} inside each host"

    @property
    def is_lossy(self) -> bool:
        """Whether packets get lost on any link."""
        return self.card.is_lossy or self.inside.is_lossy


HostLinks = Link | Sites | SharedCards  # what connects the hosts of a star


def directions(sites: int) -> list[tuple[int, int]]:
    """List every direction between two sites.

    Args:
        sites: how many there are.

    Returns:
        The ordered pairs (from, to) of their numbers, from 0.
    """
    return list(permutations(range(sites), 2))


def direction_name(names: tuple[str, ...], direction: tuple[int, int]) -> str:
    """Name a direction between two sites.

    Args:
        names: of all sites, in order.
        direction: the numbers (from, to) of the two, from 0.

    Returns:
        A text like `virginia -> frankfurt`.
    """
    return " -> ".join(names[site] for site in direction)


def site_of(host: int, *, hosts: int, sites: int) -> int:
    """Find the site of a host.

    Hosts with neighbouring numbers are on the same site, so that a ring through all hosts crosses each WAN once.

    Args:
        host: its number, from 0.
        hosts: how many there are.
        sites: how many there are.

    Returns:
        The number of the site, from 0.
    """
    return host * sites // hosts
