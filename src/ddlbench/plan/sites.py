"""Sites: groups of hosts, with a LAN in each and a WAN between each two, as part of a point."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import permutations
from typing import Any


@dataclass(frozen=True)
class Wire:
    """One direction of a link between two sites, or of the link of a site's hosts."""

    bandwidth_mbit: float
    latency_ms: float  # one way
    loss_percent: float = 0.0
    jitter_ms: float = 0.0


@dataclass(frozen=True)
class Sites:
    """A set of sites.

    Attributes:
        name: of the set.
        lans: for each site, the link of each of its hosts.
        wans: for each two sites and direction, the link from the first to the second.
    """

    name: str
    lans: tuple[tuple[str, Wire], ...]  # site, its hosts' link
    wans: tuple[tuple[tuple[str, str], Wire], ...]  # (from, to), in the order of itertools.permutations

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Sites":
        """Make the sites from what `as_dict` returned.

        Args:
            data: JSON data.

        Returns:
            An equal set of sites.
        """
        pairs = permutations(data["sites"], 2)
        return cls(
            data["name"],
            tuple((site, Wire(**data["lans"][site])) for site in data["sites"]),
            tuple((pair, Wire(**data["wans"][" -> ".join(pair)])) for pair in pairs),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return JSON data: {name, sites: names in order, lans: {site: ...}, wans: {site -> site: ...}}."""
        return {
            "name": self.name,
            "sites": [site for site, _ in self.lans],
            "lans": {site: asdict(lan) for site, lan in self.lans},
            "wans": {" -> ".join(pair): asdict(wan) for pair, wan in self.wans},
        }

    def of(self, workers: int) -> "Sites":
        """Select the sites that a number of workers use: the first ones, at most one for each worker.

        Args:
            workers: how many hosts are used.

        Returns:
            Those sites, with the links between them.
        """
        lans = self.lans[:workers]
        used = {site for site, _ in lans}
        return Sites(self.name, lans, tuple((pair, wan) for pair, wan in self.wans if used >= set(pair)))
