"""Hosts on several sites."""

from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.network.link import Link
from ddlbench.network.queueing_disciplines import settings
from ddlbench.network.sites import SharedCards, Sites
from ddlbench.network.star import Star
from ddlbench.network.traffic import counters
from ddlbench.network.verify_sites import verify_sites
from inside.checks import FORGIVING
from inside.links import connecting_ms, iperf3_between, lost_between, one_way_ms
from inside.star import ADDRESSES, hosts

THREE = [*ADDRESSES, "10.66.0.3"]  # of two sites: two hosts on the first, one on the second
LINKS = ("near 1", "near 2", "far 3", "near -> far", "far -> near")  # as of `star.backend.ports`


def site_times_ms(backend: str, sites: dict[str, Any], times: int = 15) -> dict[str, Any]:
    """How long a connection and a packet take between hosts of two sites, and a connection within one.

    Also the latency that each link was given, and the packets that entered each one during the connections within one.
    """
    with hosts(backend, addresses=THREE, sites=2) as star:
        star.shape(Sites.from_dict(sites))
        before = counters(star.backend.ports, 1)
        lan = connecting_ms(star, times, 0, 1)
        passed = [now - then for now, then in zip(counters(star.backend.ports, 1), before, strict=True)]
        given_ms = [link.latency_ms for link in star.backend.links or ()]
        return {
            "lan": lan,
            "wan": connecting_ms(star, times, 0, 2),
            "near -> far": one_way_ms(star, 0, 2, times),
            "far -> near": one_way_ms(star, 2, 0, times),
            "given_ms": dict(zip(LINKS, given_ms, strict=True)),
            "passed_of_lan": dict(zip(LINKS, passed, strict=True)),
        }


def iperf3_between_sites(
    backend: str, sites: dict[str, Any], wans: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    """What `iperf3_between` finds from each of two sites to the other, whose WANs are these."""
    with hosts(backend, addresses=THREE, sites=2) as star:
        star.shape(Sites.from_dict(sites))
        return {
            way: iperf3_between(star, Link(**wans[way]), *pair)
            for way, pair in (("near -> far", (1, 2)), ("far -> near", (2, 1)))
        }


def site_losses_percent(backend: str, sites: dict[str, Any], packets: int) -> dict[str, float]:
    """How many of the packets that a site sends do not reach the other."""
    with hosts(backend, addresses=THREE, sites=2) as star:
        star.shape(Sites.from_dict(sites))
        return {
            way: lost_between(star, *pair, packets)
            for way, pair in (("near -> far", (1, 2)), ("far -> near", (2, 1)))
        }


def probe_sites(
    backend: str | None, made: dict[str, Any], asked: dict[str, Any], dilation: float = 1.0
) -> dict[str, Any]:
    """Make the links of two sites and have them probed as others."""
    with hosts(backend, addresses=THREE, sites=2, dilation=dilation) as star:
        star.shape(Sites.from_dict(made))
        try:
            return {
                "found": verify_sites(star, Sites.from_dict(asked), FORGIVING),
                "settings": settings(star),
            }
        except DdlbenchError as error:
            return {"refused": str(error)}


def verified_cards(card: float, inside: float) -> dict[str, Any]:
    """What two hosts of two workers measure of their cards and of the links inside of them, and the rates these have.

    In Mbit/s; the links of the four workers come first.
    """
    addresses = [f"10.66.0.{number}" for number in range(1, 5)]
    with Star(addresses, congestion_control="cubic", cards=[0, 0, 1, 1]) as star:
        links = SharedCards(Link(card), Link(inside))
        star.shape(links)
        given = [each["tbf"]["rate"] * 8e-6 for way, each in settings(star).items() if " back" not in way]
        return {"measured": verify_sites(star, links, FORGIVING), "given_mbit": given}
