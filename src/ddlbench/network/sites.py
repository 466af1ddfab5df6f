"""Sites: hosts in groups, a LAN in each, and between each two of them a WAN of its own in each direction."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from ddlbench.network.link import Link


@dataclass(frozen=True)
class Sites:
    """What connects the hosts: `lans`, the link of every host of a site, and `wans`, one for each of `directions`.

    A WAN is one pipe that all hosts of its two sites share.
    """

    names: tuple[str, ...]
    lans: tuple[Link, ...]
    wans: tuple[Link, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Sites":
        """The sites that `as_dict` gave."""
        names = tuple(data["sites"])
        return cls(
            names,
            tuple(Link(**data["lans"][name]) for name in names),
            tuple(Link(**data["wans"][words(names, pair)]) for pair in directions(len(names))),
        )

    def as_dict(self) -> dict[str, Any]:
        """The names in order and the numbers of each link: {sites, lans: {name: ...}, wans: {name -> name: ...}}."""
        ways = (words(self.names, pair) for pair in directions(len(self.names)))
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


def directions(sites: int) -> list[tuple[int, int]]:
    """Every ordered pair of that many sites: from, to."""
    return list(permutations(range(sites), 2))


def words(names: tuple[str, ...], direction: tuple[int, int]) -> str:
    """A direction for people: virginia -> frankfurt."""
    return " -> ".join(names[site] for site in direction)


def site_of(host: int, *, hosts: int, sites: int) -> int:
    """The site on which a host is: neighbours together, so that a ring through all hosts crosses each WAN once."""
    return host * sites // hosts
