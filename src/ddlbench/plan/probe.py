"""Probes of emulated links, as plain data: messages between two hosts, and collectives among several."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from ddlbench.plan.settings import Probes
from ddlbench.plan.study import Link, PointToPoint


@dataclass(frozen=True)
class Collectives:
    """Collectives among hosts on one link; time is dilated by `dilation`, or by more if hosts share cores."""

    link: str
    hosts: int
    dilation: float
    transport: str

    @property
    def table(self) -> str:
        """Its table, below the folder of results."""
        return f"probes/collectives/{self.link}-k{self.dilation:g}-{self.hosts}h-{self.transport}.csv"


def dilation_of(links: Iterable[Link], shaped_mbit: float) -> float:
    """Find the smallest whole factor of dilation with which no link is faster than `shaped_mbit`.

    Args:
        links: as the configuration gives them, not dilated.
        shaped_mbit: the highest rate that this machine shapes well, in 10^6 bit/s.

    Returns:
        The factor, at least 1.
    """
    return float(max([1, *(ceil(link.bandwidth_mbit / shaped_mbit) for link in links)]))


def probes_of(settings: Probes, links: Mapping[str, Link]) -> tuple[PointToPoint | Collectives, ...]:
    """List the probes of the configuration: each link by each transport, and among each number of hosts.

    Args:
        settings: `probes` of the configuration.
        links: by name.

    Returns:
        The probes of messages, then those of collectives, each with the time dilation that its link needs.
    """
    messages, collectives = settings.point_to_point, settings.collectives
    factor = {name: dilation_of([link], settings.shaped_mbit) for name, link in links.items()}
    return (
        *(
            PointToPoint(link, factor[link], transport)
            for link in messages.links
            for transport in messages.transports
        ),
        *(
            Collectives(link, hosts, factor[link], collectives.transport)
            for link in collectives.links
            for hosts in collectives.hosts
        ),
    )
