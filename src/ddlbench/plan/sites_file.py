"""The file of sites: its mistakes, and the sets of sites in it."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

from ddlbench.configuration.schema import Path_, Problem
from ddlbench.errors import nearest
from ddlbench.plan.sites import Sites, Wire
from ddlbench.plan.study import Link

FILE = "config/sites.yaml"
_WIRE_KEYS = ("bandwidth_mbit", "latency_ms", "loss_percent", "jitter_ms")


def problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    """List the mistakes in a file of sites that its schema does not find.

    Args:
        data: the content of the file, as the schema accepts it.

    Yields:
        Each mistake.
    """
    for name, given in data.items():
        path: Path_ = (name,)
        sites = list(given["sites"])
        for site, lan in given["sites"].items():
            if isinstance(lan["lan"], Mapping):
                yield from _too_much_jitter(lan["lan"], (*path, "sites", site, "lan"))
        seen: set[tuple[str, str]] = set()
        for index, wan in enumerate(given["wan"]):
            place = (*path, "wan", index)
            wrong = list(_wrong_ends(wan, sites, place))
            yield from wrong
            yield from _too_much_jitter(wan, place)
            for pair in [] if wrong else _directions(wan):
                if pair in seen:
                    yield Problem(FILE, place, f"{pair[0]} -> {pair[1]} is given twice")
                seen.add(pair)
        if all(set(_ends(wan)) <= set(sites) for wan in given["wan"]):
            for one, other in permutations(sites, 2):
                if (one, other) not in seen:
                    text = f"{one} -> {other} is missing (expected a link for every pair of sites)"
                    yield Problem(FILE, (*path, "wan"), text)


def _wrong_ends(wan: Mapping[str, Any], sites: list[str], path: Path_) -> Iterator[Problem]:
    directed = [key for key in ("from", "to") if key in wan]
    if ("between" in wan) == bool(directed) or len(directed) == 1:
        yield Problem(FILE, path, "expected either between, for both directions, or from and to, for one")
        return
    for site in (ends := _ends(wan)):
        if site not in sites:
            hint = nearest(site, sites) or f" (expected one of {', '.join(sites)})"
            yield Problem(FILE, path, f"{site!r} is not one of its sites{hint}")
    if ends[0] == ends[1]:
        yield Problem(FILE, path, f"{ends[0]!r} cannot be linked to itself (its hosts have their LAN)")


def _too_much_jitter(link: Mapping[str, Any], path: Path_) -> Iterator[Problem]:
    jitter, latency = link.get("jitter_ms", 0), link["latency_ms"]
    if jitter > latency:
        text = (
            f"{jitter} is more than latency_ms, which is {latency}: a packet would arrive before it was sent"
        )
        yield Problem(FILE, (*path, "jitter_ms"), text)


def sites_from(data: Mapping[str, Any], links: Mapping[str, Link]) -> dict[str, Sites]:
    """Read the sets of sites of a file without mistakes.

    Args:
        data: the content of the file.
        links: those that a LAN may name.

    Returns:
        Name -> set of sites.
    """
    found = {}
    for name, given in data.items():
        wans = {pair: _wire(wan) for wan in given["wan"] for pair in _directions(wan)}
        lans = tuple((site, _lan(each["lan"], links)) for site, each in given["sites"].items())
        pairs = permutations(given["sites"], 2)
        found[name] = Sites(name, lans, tuple((pair, wans[pair]) for pair in pairs))
    return found


def _lan(given: Any, links: Mapping[str, Link]) -> Wire:
    if isinstance(given, Mapping):
        return _wire(given)
    link = links[given]
    return Wire(link.bandwidth_mbit, link.latency_ms, link.loss_percent)


def _wire(given: Mapping[str, Any]) -> Wire:
    return Wire(**{key: float(given[key]) for key in _WIRE_KEYS if key in given})


def _ends(wan: Mapping[str, Any]) -> list[str]:
    return list(wan["between"]) if "between" in wan else [wan[key] for key in ("from", "to") if key in wan]


def _directions(wan: Mapping[str, Any]) -> list[tuple[str, str]]:
    one, other = _ends(wan)
    return [(one, other), (other, one)] if "between" in wan else [(one, other)]
