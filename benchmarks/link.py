"""Emulated links against what they are called: goodput, latency, loss, many hosts at once, and how soon they are there.

Goodput: TCP (cubic) between two hosts, by our point-to-point probe (messages of 8 MB) and by iperf3 in turns, against
0.956 of nominal (1,448 bytes of data in a frame of 1,514). Latency: one way, as the receiving host's kernel sees it, on
an idle link and on one that is loaded to the half. Loss: numbered packets, each way. All pairs: each of 16 hosts sends
to all others over TCP at once. Up and down: 16 hosts made, shaped and removed.
"""

import random
import shutil
from collections.abc import Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any

from scipy.stats import binom

from benchmarks.common import benchmark, in_sandbox, in_words, options, row, save, say, spread
from benchmarks.groups import hosts_on, star_of, two_cores
from benchmarks.link_traffic import all_pairs_mbit, iperf3_mbit, lost, one_way_ms, probe_mbit
from ddlbench.errors import DdlbenchError
from ddlbench.network.link import Link
from ddlbench.network.star import Star

BANDWIDTHS_MBIT = (100, 400, 1000, 2000)
LATENCIES_MS = (1, 2, 5, 10, 20, 50, 100, 200)
LOSSES_PERCENT = (0.1, 0.5, 1, 5, 10)
LATENCY_LINK_MBIT, LOSS_LINK_MBIT, DISTANT_MS = 1000, 1000, 50
OF_NOMINAL = 0.956
GOODPUT, ALL_PAIRS = 0.99, 0.97
MEDIAN_PERCENT, MEDIAN_MS, P99_PERCENT, P99_MS = 1.0, 0.2, 5.0, 1.0
LOADS = {"idle": 0.0, "half loaded": 0.5}
SURE = 0.99
HOSTS, UP_AND_DOWN_S = 16, 1.0

Found = dict[str, list[dict[str, Any]]]


def main(arguments: Sequence[str]) -> None:
    asked = options(
        __doc__, arguments, rounds=3, messages=5, iperf3_s=3.0, pings=1000, packets=100_000, pair_mbit=100,
        pair_s=5.0, seed=1,
    )  # fmt: skip
    if not shutil.which("iperf3"):
        raise DdlbenchError("iperf3 is not installed; on Debian:  apt-get install iperf3")
    found: Found = in_sandbox("benchmarks.link", vars(asked), timeout_s=600)
    save("link", rows(found), {"asked": vars(asked), "found": found})


def rows(found: Found) -> list[dict[str, Any]]:
    """A row for each number that the links must reach."""
    return [
        _goodput(found["goodput"]),
        *(_latency(found["latency"], load) for load in LOADS),
        _loss(found["loss"]),
        _all_pairs(found["all_pairs"]),
        _up_and_down(found["up_and_down"]),
    ]


def _goodput(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ours, theirs = (_by_link(values, tool) for tool in ("probe_mbit", "iperf3_mbit"))
    near = [link for link in ours if link.latency_ms == 0]
    worst = min(near, key=lambda link: median(ours[link]) / link.bandwidth_mbit)
    share = {link: spread([each / link.bandwidth_mbit / OF_NOMINAL for each in ours[link]]) for link in near}
    # the peer, at all links, distant ones too
    reached = {link: median(theirs[link]) / link.bandwidth_mbit / OF_NOMINAL for link in theirs}
    low = min(reached, key=lambda link: reached[link])
    return row(
        "link: goodput of our probe (8 MB messages), 100, 400, 1000 and 2000 Mbit/s",
        at_least=f"{GOODPUT:g} of the limit",
        measured=f"{in_words(share[worst])} at {worst.bandwidth_mbit:g} Mbit/s, the worst",
        peer=f"nominal x {OF_NOMINAL}; iperf3 there and at {DISTANT_MS} ms: {reached[low]:.3g} at {low}, the worst",
        met=all(each["median"] >= GOODPUT for each in share.values()),
    )


def _latency(values: Sequence[Mapping[str, Any]], load: str) -> dict[str, Any]:
    medians: dict[float, float] = {}
    tails: dict[float, float] = {}
    for each in values:
        if each["load"] == load:
            medians[each["latency_ms"]] = each["median_ms"] - each["latency_ms"]
            tails[each["latency_ms"]] = each["p99_ms"] - each["latency_ms"]
    of_median = {ms: abs(off) / max(MEDIAN_MS, ms * MEDIAN_PERCENT / 100) for ms, off in medians.items()}
    of_tail = {ms: abs(off) / max(P99_MS, ms * P99_PERCENT / 100) for ms, off in tails.items()}
    worst, tail = max(of_median, key=lambda ms: of_median[ms]), max(of_tail, key=lambda ms: of_tail[ms])
    return row(
        f"link: one-way latency, 1 to 200 ms at {LATENCY_LINK_MBIT} Mbit/s, {load}",
        at_least=f"median within {MEDIAN_PERCENT:g} % or {MEDIAN_MS:g} ms, "
        f"99th percentile within {P99_PERCENT:g} % or {P99_MS:g} ms",
        measured=f"median {medians[worst]:+.2f} ms at {worst:g} ms, 99th percentile {tails[tail]:+.2f} ms "
        f"at {tail:g} ms, the worst of {len(medians)}",
        peer="nominal",
        met=max(*of_median.values(), *of_tail.values()) <= 1,
    )


def _loss(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    inside = 0
    lines = []
    for each in values:
        low, high = binom.interval(SURE, each["packets"], each["loss_percent"] / 100)
        inside += int(low <= each["lost"] <= high)
        lines.append(f"{each['loss_percent']:g} %: {100 * each['lost'] / each['packets']:.3f}")
    return row(
        f"link: loss over {values[0]['packets']:,} packets",
        at_least=f"within the binomial {SURE:.0%} interval",
        measured=f"{inside} of {len(values)} inside ({'; '.join(lines)})",
        peer="nominal",
        met=inside == len(values),
    )


def _all_pairs(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    bandwidth_mbit = values[0]["bandwidth_mbit"]
    shares = [
        [mbit / bandwidth_mbit / OF_NOMINAL for mbit in host]
        for host in zip(*(each["hosts_mbit"] for each in values), strict=True)
    ]
    worst = min(shares, key=median)
    return row(
        f"link: {len(shares)} hosts, all pairs at once over TCP, {bandwidth_mbit:g} Mbit/s a host",
        at_least=f"{ALL_PAIRS:g} of the limit",
        measured=f"{in_words(spread(worst))}, the worst host",
        peer=f"nominal x {OF_NOMINAL}",
        met=median(worst) >= ALL_PAIRS,
    )


def _up_and_down(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    took = spread([each["up_s"] + each["shape_s"] + each["down_s"] for each in values])
    parts = ", ".join(
        f"{name} {median(each[f'{name}_s'] for each in values):.2f} s" for name in ("up", "shape", "down")
    )
    return row(
        f"link: {HOSTS} hosts up, shaped and down",
        at_least=f"under {UP_AND_DOWN_S:g} s",
        measured=f"{in_words(took, ' s')}: {parts}",
        peer="",
        met=took["median"] < UP_AND_DOWN_S,
    )


def _by_link(values: Sequence[Mapping[str, Any]], name: str) -> dict[Link, list[float]]:
    found: dict[Link, list[float]] = {}
    for each in values:
        if each[name] is not None:
            found.setdefault(Link(each["bandwidth_mbit"], each["latency_ms"]), []).append(each[name])
    return found


# ------------------------------------------------------------------------------------------------ inside


def inside(job: Mapping[str, Any]) -> Found:
    """Every value of every link."""
    order = random.Random(job["seed"])
    found: Found = {"up_and_down": _times(job["rounds"])}
    with star_of(hosts_on(two_cores())) as star:
        found["goodput"] = _goodputs(star, job, order)
        found["latency"] = [
            _one_way(star, latency_ms, load, job["pings"])
            for latency_ms in order.sample(LATENCIES_MS, len(LATENCIES_MS))
            for load in LOADS
        ]
        found["loss"] = [
            _lost(star, loss, number % 2, job["packets"]) for number, loss in enumerate(LOSSES_PERCENT)
        ]
    found["all_pairs"] = _pairs(job)
    return found


def _goodputs(star: Star, job: Mapping[str, Any], order: random.Random) -> list[dict[str, Any]]:
    """Our probe and iperf3 in turns on every link; distant links by iperf3 only, in the first round."""
    hosts = hosts_on(two_cores()).hosts
    found = []
    for number in range(job["rounds"]):
        links = [
            Link(mbit, ms) for mbit in BANDWIDTHS_MBIT for ms in ((0, DISTANT_MS) if number == 0 else (0,))
        ]
        for link in order.sample(links, len(links)):
            star.shape(link)
            ours = median(probe_mbit(star, job["messages"])) if link.latency_ms == 0 else None
            theirs = (
                iperf3_mbit(star, hosts, link, job["iperf3_s"])
                if number == 0 or link.latency_ms == 0
                else None
            )
            found.append({**link.as_dict(), "probe_mbit": ours, "iperf3_mbit": theirs})
            say(
                f"round {number + 1}: {link}: probe {ours and round(ours, 1)}, iperf3 {theirs and round(theirs, 1)}"
            )
    return found


def _one_way(star: Star, latency_ms: float, load: str, pings: int) -> dict[str, Any]:
    link = Link(LATENCY_LINK_MBIT, latency_ms)
    star.shape(link)
    times_ms = sorted(one_way_ms(star, link, pings, load=LOADS[load]))
    found = {
        "latency_ms": latency_ms,
        "load": load,
        "median_ms": median(times_ms),
        "p1_ms": times_ms[len(times_ms) // 100],
        "p99_ms": times_ms[len(times_ms) * 99 // 100],
        "max_ms": times_ms[-1],
    }
    say(", ".join(f"{key} {value:.3f}" if key.endswith("ms") else str(value) for key, value in found.items()))
    return found


def _lost(star: Star, loss_percent: float, sender: int, packets: int) -> dict[str, Any]:
    star.shape(Link(LOSS_LINK_MBIT, 0, loss_percent))
    found = {"loss_percent": loss_percent, "packets": packets, "lost": lost(star, sender, packets)}
    say(f"loss {loss_percent:g} %: {100 * found['lost'] / packets:.3f} %")
    return found


def _pairs(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = []
    for _ in range(job["rounds"]):
        with _many() as star:
            star.shape(Link(job["pair_mbit"]))
            mbit = all_pairs_mbit(star, settle_s=2.0, seconds=job["pair_s"])
        found.append({"bandwidth_mbit": job["pair_mbit"], "hosts_mbit": mbit})
        say(f"all pairs: {min(mbit):.2f} to {max(mbit):.2f} Mbit/s a host")
    return found


def _times(rounds: int) -> list[dict[str, Any]]:
    found = []
    for _ in range(rounds):
        began = perf_counter()
        star = _many()
        up = perf_counter()
        star.shape(Link(100, 10))
        shaped = perf_counter()
        star.__exit__(None, None, None)
        down = perf_counter()
        found.append({"up_s": up - began, "shape_s": shaped - up, "down_s": down - shaped})
    say(f"up and down: {found}")
    return found


def _many() -> Star:
    return Star([f"10.66.0.{number}" for number in range(1, HOSTS + 1)], congestion_control="cubic")


if __name__ == "__main__":
    benchmark(main, inside)
