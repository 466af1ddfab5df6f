"""Emulated links against what they are called: goodput by iperf3, round trips by pings, loss by counted packets.

All between two emulated hosts, every link once a round in a random order; a link's value is its median over the rounds.
Goodput: TCP (cubic), without slow start, against 0.956 of nominal (1,448 bytes of data in a frame of 1,514).
Round trips: UDP of our own (not the product's probe), and `ping` where it is installed.
Loss: 20,000 numbered packets each way; the receiver counts the numbers that it has seen.
"""

import json
import random
import re
import select
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from statistics import median
from time import monotonic, perf_counter
from typing import Any

from benchmarks.common import benchmark, in_sandbox, in_words, options, row, save, say, spread
from benchmarks.groups import become, pair, star_of, two_cores
from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import Host
from ddlbench.network.link import Link
from ddlbench.network.namespaces import entered
from ddlbench.network.star import Star

BANDWIDTHS_MBIT, LATENCIES_MS, LOSSES_PERCENT = (100, 400, 1000, 2000), (0, 10, 50, 100), (1, 2, 5)
DELAYED = [Link(*values) for values in product(BANDWIDTHS_MBIT, LATENCIES_MS)]
LOSSY = [Link(bandwidth, 0, loss) for bandwidth, loss in product(BANDWIDTHS_MBIT, LOSSES_PERCENT)]
OF_NOMINAL = 0.956
GOODPUT_PERCENT, RTT_PERCENT, RTT_MS, LOSS_POINTS = 1.0, 2.0, 0.5, 0.3
LOSS_PACKETS, LOSS_BYTES = 20_000, 100
RECEIVE_BUFFER_FORCE = 33  # SO_RCVBUFFORCE

Found = dict[str, list[dict[str, float]]]


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, rounds=3, goodput_s=4.0, links=len(DELAYED), pings=200, seed=1)
    if not shutil.which("iperf3"):
        raise DdlbenchError("iperf3 is not installed; on Debian:  apt-get install iperf3")
    found: Found = in_sandbox("benchmarks.link", vars(asked), timeout_s=300 + asked.rounds * 600)
    save("link", rows(found), {"asked": vars(asked), "found": found})


def rows(found: Found) -> list[dict[str, Any]]:
    """The worst link's median over the rounds, of each of the three."""
    goodput = _worst(found["goodput"], "error_percent", lambda link: GOODPUT_PERCENT)
    trips = {
        tool: _worst(found[tool], "error_ms", rtt_tolerance_ms) for tool in ("udp", "ping") if found[tool]
    }
    loss = _worst(found["loss"], "error_points", lambda link: LOSS_POINTS)
    measured = "; ".join(f"{tool}: {worst['words']} ms" for tool, worst in trips.items())
    return [
        row(
            "link: TCP goodput (iperf3, cubic), 100 to 2000 Mbit/s, 0 to 100 ms",
            at_least=f"within {GOODPUT_PERCENT:g} %",
            measured=f"{goodput['words']} %",
            peer=f"nominal x {OF_NOMINAL}",
            met=goodput["met"],
        ),
        row(
            "link: round-trip time, the same links",
            at_least=f"within {RTT_PERCENT:g} % or {RTT_MS:g} ms",
            measured=measured,
            peer="2 x nominal latency",
            met=all(worst["met"] for worst in trips.values()),
        ),
        row(
            f"link: loss over {LOSS_PACKETS:,} packets, 1 to 5 %",
            at_least=f"within {LOSS_POINTS:g} points",
            measured=f"{loss['words']} points",
            peer="nominal",
            met=loss["met"],
        ),
    ]


def rtt_tolerance_ms(link: Link) -> float:
    return max(RTT_MS, 2 * link.latency_ms * RTT_PERCENT / 100)


def _worst(values: Sequence[Mapping[str, float]], error: str, tolerance: Any) -> dict[str, Any]:
    """The link whose median error is the largest part of its tolerance."""
    errors: dict[Link, list[float]] = {}
    for each in values:
        link = Link(each["bandwidth_mbit"], each["latency_ms"], each["loss_percent"])
        errors.setdefault(link, []).append(each[error])
    link = max(errors, key=lambda link: abs(median(errors[link])) / tolerance(link))
    return {
        "words": f"{in_words(spread(errors[link]))} at {link}, the worst of {len(errors)}",
        "met": abs(median(errors[link])) <= tolerance(link),
    }


def inside(job: Mapping[str, Any]) -> Found:
    """Every value of every link and round, with its error against nominal."""
    placement = pair(two_cores())
    found: Found = {"goodput": [], "udp": [], "ping": [], "loss": []}
    order = random.Random(job["seed"])
    links = order.sample(DELAYED, min(job["links"], len(DELAYED)))
    lossy = order.sample(LOSSY, min(job["links"], len(LOSSY)))
    with star_of(placement) as star:
        for number in range(1, job["rounds"] + 1):
            order.shuffle(links)
            for link in links:
                star.shape(link)
                asked_ms, nominal_mbit = 2 * link.latency_ms, link.bandwidth_mbit * OF_NOMINAL
                for tool, rtt_ms in round_trips_ms(star, placement.hosts, job["pings"]):
                    found[tool].append({**link.as_dict(), "rtt_ms": rtt_ms, "error_ms": rtt_ms - asked_ms})
                mbit = goodput_mbit(star, placement.hosts, link, job["goodput_s"])
                error_percent = (mbit / nominal_mbit - 1) * 100
                found["goodput"].append(
                    {**link.as_dict(), "goodput_mbit": mbit, "error_percent": error_percent}
                )
                trips = ", ".join(
                    f"{found[tool][-1]['rtt_ms']:.2f} ms ({tool})" for tool in ("udp", "ping") if found[tool]
                )
                say(
                    f"round {number} of {job['rounds']}: {link}: {mbit:.1f} Mbit/s ({error_percent:+.2f} %), {trips}"
                )
            order.shuffle(lossy)
            for link in lossy:
                star.shape(link)
                for direction in (0, 1):
                    lost = lost_percent(star, direction)
                    error = lost - link.loss_percent
                    found["loss"].append({**link.as_dict(), "lost_percent": lost, "error_points": error})
                say(f"round {number} of {job['rounds']}: {link}: {lost:.2f} % lost")
    return found


# ------------------------------------------------------------------------------------------------ goodput


def goodput_mbit(star: Star, hosts: Sequence[Host], link: Link, seconds: float) -> float:
    """What iperf3's receiver gets, in Mbit/s, after slow start and what follows it."""
    slow_start_s = 1 + round(link.latency_ms / 10)
    with _running(["iperf3", "-s", "-1", "--forceflush", "-B", star.addresses[1]], star, hosts, 1) as server:
        assert server.stdout is not None
        while "listening" not in (line := server.stdout.readline()):
            if not line:
                raise DdlbenchError("iperf3's server did not start")
        client = [
            "iperf3",
            "-c",
            star.addresses[1],
            "-C",
            "cubic",
            "-J",
            "-t",
            f"{seconds:g}",
            "-O",
            f"{slow_start_s}",
        ]
        with _running(client, star, hosts, 0) as process:
            answer = json.loads(process.communicate(timeout=seconds + slow_start_s + 60)[0])
    if "error" in answer:
        raise DdlbenchError(f"iperf3 over {link}: {answer['error']}")
    return float(answer["end"]["sum_received"]["bits_per_second"]) / 1e6


@contextmanager
def _running(
    command: Sequence[str], star: Star, hosts: Sequence[Host], number: int
) -> "Iterator[subprocess.Popen[str]]":
    """A command on an emulated host, ended at the end."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=become(hosts[number], star.namespaces[number]),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# ------------------------------------------------------------------------------------------------ round trips


def round_trips_ms(star: Star, hosts: Sequence[Host], pings: int) -> Iterator[tuple[str, float]]:
    """Median round-trip time by each tool that there is."""
    yield "udp", median(_udp_round_trips_ms(star, pings))
    if shutil.which("ping"):
        command = ["ping", "-n", "-i", "0.01", "-c", str(pings), star.addresses[1]]
        with _running(command, star, hosts, 0) as process:
            output = process.communicate(timeout=60)[0]
        yield "ping", median(map(float, re.findall(r"time=([\d.]+) ms", output)))


def _udp_round_trips_ms(star: Star, pings: int, gap_s: float = 0.01) -> list[float]:
    """Numbered packets, one every `gap_s`, sent back by the other host."""
    with _socket(star, 0) as asking, _socket(star, 1) as answering:
        sent: list[float] = []
        trips_ms: list[float] = []
        deadline = monotonic() + pings * gap_s + 5
        while len(trips_ms) < pings and monotonic() < deadline:
            if len(sent) < pings and (not sent or perf_counter() - sent[-1] >= gap_s):
                sent.append(perf_counter())
                asking.sendto(struct.pack("=I", len(sent) - 1), answering.getsockname())
            for ready in select.select([asking, answering], [], [], gap_s / 10)[0]:
                packet, sender = ready.recvfrom(64)
                if ready is answering:
                    answering.sendto(packet, sender)
                else:
                    trips_ms.append((perf_counter() - sent[struct.unpack("=I", packet)[0]]) * 1000)
    return trips_ms


# ------------------------------------------------------------------------------------------------ loss


def lost_percent(star: Star, sender: int) -> float:
    """Share of numbered packets that the other host never sees, sent as fast as the link takes them."""
    with _socket(star, sender) as source, _socket(star, 1 - sender) as target:
        target.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_FORCE, 64 << 20)
        seen: set[int] = set()
        for number in range(LOSS_PACKETS):
            packet = struct.pack("=I", number).ljust(LOSS_BYTES)
            while True:
                try:
                    source.sendto(packet, target.getsockname())
                    break
                except BlockingIOError:
                    select.select([target], [source], [])
                    _read(target, seen)
            if number % 64 == 0:
                _read(target, seen)
        while select.select([target], [], [], 0.5)[0]:
            _read(target, seen)
    return 100 * (1 - len(seen) / LOSS_PACKETS)


def _read(target: socket.socket, seen: set[int]) -> None:
    with suppress(BlockingIOError):
        while True:
            seen.add(struct.unpack("=I", target.recv(2048)[:4])[0])


def _socket(star: Star, host: int) -> socket.socket:
    with entered(star.namespaces[host]):
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.bind((star.addresses[host], 0))
    endpoint.setblocking(False)
    return endpoint


if __name__ == "__main__":
    benchmark(main, inside)
