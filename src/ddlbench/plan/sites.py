"""Sites: hosts in groups, a LAN in each, a WAN between each two, as a point holds them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import permutations
from typing import Any


@dataclass(frozen=True)
class Wire:
    """What a link between sites, or of a site's hosts, can carry, in one direction."""

    bandwidth_mbit: float
    latency_ms: float  # one way
    loss_percent: float = 0.0
    jitter_ms: float = 0.0


@dataclass(frozen=True)
class Sites:
    """A set of sites by its name: the link of every host of each, and the link of every direction between two."""

    name: str
    lans: tuple[tuple[str, Wire], ...]  # site, its hosts' link
    wans: tuple[tuple[tuple[str, str], Wire], ...]  # (from, to), in the order of itertools.permutations

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Sites":
        """The sites that `as_dict` gave."""
        pairs = permutations(data["sites"], 2)
        return cls(
            data["name"],
            tuple((site, Wire(**data["lans"][site])) for site in data["sites"]),
            tuple((pair, Wire(**data["wans"][" -> ".join(pair)])) for pair in pairs),
        )

    def as_dict(self) -> dict[str, Any]:
        """The sites as JSON data: {name, sites: names in order, lans: {site: ...}, wans: {site -> site: ...}}."""
        return {
            "name": self.name,
            "sites": [site for site, _ in self.lans],
            "lans": {site: asdict(lan) for site, lan in self.lans},
            "wans": {" -> ".join(pair): asdict(wan) for pair, wan in self.wans},
        }

    def of(self, workers: int) -> "Sites":
        """What that many workers use of them: the first sites, at most one for each worker."""
        lans = self.lans[:workers]
        used = {site for site, _ in lans}
        return Sites(self.name, lans, tuple((pair, wan) for pair, wan in self.wans if used >= set(pair)))
