"""The point-to-point probe against NetPIPE's own program: one-way times of all sizes, and how long a curve takes.

Both run between the same two emulated hosts over the same link. "Raw" is an open link: veth pairs and the router
between them. A machine's speed drifts within seconds, and a virtual one's may change threefold as its cores are moved:
so both measure a few sizes in turns, ours before NetPIPE and after it, and what counts is the median over the turns of
the ratio of neighbours in time. The wall times are those of whole curves.

NetPIPE stays with a size for three trials and reports the fastest, ours reports the median of its values. In an hour in
which a machine's speed has two levels, minima and medians are different things. So on the open link, what is held
against NetPIPE's is what NetPIPE would make of our values: the fastest of three, on the average over all threes; how
many medians are outside is said as well. On a shaped link, whose times are the link's, it is the medians themselves.

Where it may, it holds the cores awake meanwhile, as cyclictest does: how long a virtual core takes to wake up is three
quarters of a small message's time and differs from one tenth of a second to the next, so that NetPIPE does not agree
with itself. Both programs sleep and are woken as ever; only the cores do not.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import comb, fsum
from statistics import mean, median
from time import monotonic
from typing import Any

from benchmarks.common import benchmark, cores_awake, in_sandbox, in_words, options, row, save, say, spread
from benchmarks.groups import hosts_on, star_of, two_cores
from ddlbench.cli.probe import RULE
from ddlbench.network.link import Link
from ddlbench.probes.link_probe import netpipe_hosts, probe_hosts
from ddlbench.probes.ping_pong import sizes

LINKS = {"raw": None, "shaped": Link(1000, 1)}
WITHIN_PERCENT = {"raw": 10.0, "shaped": 3.0}
FASTER = 5.0
TIMEOUT_S, TURN_TIMEOUT_S = 60.0, 240

Turn = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, turns=5, shaped_turns=3, curves=2, largest_bytes=8 << 20)
    count = asked.turns + asked.shaped_turns + 2 * asked.curves
    found = in_sandbox("benchmarks.probe", vars(asked), timeout_s=60 + count * TURN_TIMEOUT_S)
    sizes_of = {name: by_size(found["turns"], name) for name in LINKS}
    rows = [times(name, sizes_of[name], found["awake"]) for name in LINKS if sizes_of[name]]
    if found["curves"]:
        rows.append(wall(found["curves"]))
    save("probe", rows, {"asked": vars(asked), "sizes": sizes_of, **found})


def by_size(turns: Sequence[Turn], link: str) -> dict[str, dict[str, Any]]:
    """Of each size: medians over the turns of our time and theirs in us, and of their ratio, with its range."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for turn in turns:
        for size, theirs_s in turn["theirs_s"].items() if turn["link"] == link else ():
            median_s = turn["our_medians_s"][size]
            ours_s = turn["our_fastest_s"][size] if link == "raw" else median_s
            found.setdefault(size, []).append((ours_s, median_s, theirs_s))
    return {
        size: {
            "ours_us": median(ours for ours, _, _ in each) * 1e6,
            "theirs_us": median(theirs for _, _, theirs in each) * 1e6,
            "ratio": spread([ours / theirs for ours, _, theirs in each]),
            "ratio_of_medians": spread([ours / theirs for _, ours, theirs in each]),
        }
        for size, each in found.items()
    }


def times(link: str, found: Mapping[str, Mapping[str, Any]], awake: bool) -> dict[str, Any]:
    """The size whose median ratio is farthest from 1."""
    ratios = {size: each["ratio"] for size, each in found.items()}
    within = WITHIN_PERCENT[link]
    worst = max(ratios, key=lambda size: abs(ratios[size]["median"] - 1))
    missed, by_medians = (
        sum(abs(each[kind]["median"] - 1) * 100 > within for each in found.values())
        for kind in ("ratio", "ratio_of_medians")
    )
    typical = median(each["median"] for each in ratios.values())
    return row(
        f"probe: one-way time of {len(ratios)} sizes, {LINKS[link] or 'raw veth'}{', cores held awake' * awake}",
        at_least=f"ratio within {within:g} % of 1",
        measured=f"{in_words(ratios[worst])} at {worst} bytes, the worst; {missed} sizes outside"
        f"{f' ({by_medians} by our medians)' * (link == 'raw')}; all sizes' median {typical:.3g}",
        peer="NetPIPE's NPtcp",
        met=missed == 0,
    )


def wall(curves: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """How much sooner our curve is complete on the open link, intervals included."""
    faster = spread([curve["theirs_s"] / curve["ours_s"] for curve in curves])
    ours_s, theirs_s = (median(curve[whose] for curve in curves) for whose in ("ours_s", "theirs_s"))
    return row(
        "probe: a full curve with intervals, raw veth",
        at_least=f"{FASTER:g} times faster",
        measured=f"{in_words(faster)}: {ours_s:.1f} s",
        peer=f"NetPIPE's NPtcp: {theirs_s:.1f} s",
        met=faster["median"] >= FASTER,
    )


def inside(job: Mapping[str, Any]) -> dict[str, Any]:
    """Turns of both on each link; then whole curves."""
    placement = hosts_on(two_cores())
    turns: list[Turn] = []
    curves: list[dict[str, float]] = []
    with star_of(placement) as star, cores_awake() as awake:
        both = Both(star, placement.hosts)
        for name, count in (("raw", job["turns"]), ("shaped", job["shaped_turns"])):
            star.shape(LINKS[name])
            for number in range(count):
                began = monotonic()
                for smallest, largest in blocks(name, job["largest_bytes"]):
                    found = both.in_turn(smallest, largest)
                    turns.append({"link": name, "number": number, **found})
                say(f"turn {number + 1} of {count}, {name}: {monotonic() - began:.0f} s")
        star.shape(None)
        for number in range(job["curves"]):
            found = both.in_turn(1, job["largest_bytes"])
            curves.append({"ours_s": found["our_wall_s"], "theirs_s": found["their_wall_s"]})
            say(
                "curve {0} of {1}: {ours_s:.1f} s, NPtcp {theirs_s:.1f} s".format(
                    number + 1, job["curves"], **curves[-1]
                )
            )
    return {"turns": turns, "curves": curves, "awake": awake}


def blocks(link: str, largest_bytes: int) -> list[tuple[int, int]]:
    """The smallest and the largest base size of each block of NetPIPE's sizes that is measured in turns.

    On the open link a block is a base size. NetPIPE sends its first one a hundred times before all else: on a shaped
    link, whose times are its own and not the machine's, a block is an octave, and the large ones share one.
    """
    if link == "raw":
        bases = [base for power in range(4, 24) for base in (1 << power, 3 << (power - 1))]
        return [(1, 12), *((base, base) for base in bases if base <= largest_bytes)]
    starts = [1, *(start for power in range(6, 20) if (start := 1 << power) <= largest_bytes)]
    return [
        (start, min(following - 1, largest_bytes))
        for start, following in pairwise([*starts, 2 * largest_bytes])
    ]


def fastest_of_three(values: Sequence[float]) -> float:
    """The mean, over all threes of at least three values, of the least."""
    behind = [comb(later, 2) for later in reversed(range(len(values)))]  # pairs that may come with a value
    return fsum(value * pairs for value, pairs in zip(sorted(values), behind, strict=True)) / sum(behind)


def sizes_of_block(smallest_bytes: int, largest_bytes: int) -> list[int]:
    """NetPIPE's sizes between two base sizes, those that are three bytes off with them."""
    below = (
        [size for size in sizes(smallest_bytes) if size < smallest_bytes - 3] if smallest_bytes > 1 else []
    )
    return sizes(largest_bytes)[len(below) :]


class Both:
    """The two programs between the first two hosts of a star."""

    def __init__(self, star: Any, hosts: Sequence[Any]) -> None:
        self.star = star
        self.hosts = hosts

    def in_turn(self, smallest_bytes: int, largest_bytes: int) -> Turn:
        """The same sizes by both, ours before NetPIPE and after it: so a drift cancels."""
        before_s, before_wall_s = self._ours(smallest_bytes, largest_bytes)
        found = self._theirs(smallest_bytes, largest_bytes)
        after_s, after_wall_s = self._ours(smallest_bytes, largest_bytes)
        return {
            "our_fastest_s": {
                size: fastest_of_three([*once, *after_s[size]]) for size, once in before_s.items()
            },
            "our_medians_s": {size: median([*once, *after_s[size]]) for size, once in before_s.items()},
            "our_wall_s": mean([before_wall_s, after_wall_s]),
            **found,
        }

    def _ours(self, smallest_bytes: int, largest_bytes: int) -> tuple[dict[str, list[float]], float]:
        began = monotonic()
        wanted = sizes_of_block(smallest_bytes, largest_bytes)
        times_s, vanished = probe_hosts(self.star, self.hosts, wanted, rule=RULE, timeout_s=TIMEOUT_S)
        assert vanished is None, vanished
        return {str(size): values for size, values in times_s.items()}, monotonic() - began

    def _theirs(self, smallest_bytes: int, largest_bytes: int) -> Turn:
        began = monotonic()
        curve = netpipe_hosts(
            self.star, self.hosts, smallest_bytes=smallest_bytes, largest_bytes=largest_bytes
        )
        theirs_s = {str(size): values[0] for size, values in curve.items()}
        return {"theirs_s": theirs_s, "their_wall_s": monotonic() - began}


if __name__ == "__main__":
    benchmark(main, inside)
