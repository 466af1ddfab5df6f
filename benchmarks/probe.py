"""The point-to-point probe against NetPIPE's own program: one-way times of all sizes, and how long a curve takes.

Both run between the same two emulated hosts over the same link, in turns; a size's ratio is the median over the turns
of our one-way time by NetPIPE's. "Raw" is an open link: veth pairs and the router between them.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from benchmarks.common import benchmark, in_sandbox, in_words, options, row, save, say, spread
from benchmarks.groups import become, pair, star_of, two_cores
from ddlbench.cli_probe import MEASURE
from ddlbench.measurements.point_to_point import from_netpipe
from ddlbench.measurements.statistics import median_interval, needs_repetition
from ddlbench.network.link import Link
from ddlbench.network.namespaces import entered
from ddlbench.network.pingpong import answer, listening, probe, sizes

LINKS = {"raw": None, "shaped": Link(1000, 1)}
WITHIN_PERCENT = {"raw": 10.0, "shaped": 3.0}
FASTER = 5.0
NETPIPE_TIMEOUT_S, TIMEOUT_S = 600, 60.0

Turn = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, turns=3, largest_bytes=8 << 20)
    turns = in_sandbox("benchmarks.probe", vars(asked), timeout_s=300 + asked.turns * 4 * NETPIPE_TIMEOUT_S)
    save("probe", [*times(turns), wall(turns)], {"asked": vars(asked), "turns": turns})


def times(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """The size whose median ratio is farthest from 1, of each kind of link."""
    found = []
    for name, within in WITHIN_PERCENT.items():
        of_link = [turn for turn in turns if turn["link"] == name]
        ratios = {
            size: spread([turn["ours_s"][size] / turn["theirs_s"][size] for turn in of_link])
            for size in of_link[0]["theirs_s"]
        }
        worst = max(ratios, key=lambda size: abs(ratios[size]["median"] - 1))
        missed = sum(abs(each["median"] - 1) * 100 > within for each in ratios.values())
        found.append(
            row(
                f"probe: one-way time of {len(ratios)} sizes, {LINKS[name] or 'raw veth'}",
                at_least=f"ratio within {within:g} % of 1",
                measured=f"{in_words(ratios[worst])} at {worst} bytes, the worst; {missed} sizes outside",
                peer="NetPIPE's NPtcp",
                met=missed == 0,
            )
        )
    return found


def wall(turns: Sequence[Turn]) -> dict[str, Any]:
    """How much sooner our curve is complete on the open link, intervals included."""
    faster = spread([turn["their_wall_s"] / turn["our_wall_s"] for turn in turns if turn["link"] == "raw"])
    ours = median(turn["our_wall_s"] for turn in turns if turn["link"] == "raw")
    return row(
        "probe: a full curve with intervals, raw veth",
        at_least=f"{FASTER:g} times faster",
        measured=f"{in_words(faster)}: {ours:.1f} s",
        peer="NetPIPE's NPtcp",
        met=faster["median"] >= FASTER,
    )


def inside(job: Mapping[str, Any]) -> list[Turn]:
    """Turns of both on each link, every other time NetPIPE first."""
    placement = pair(two_cores())
    turns = []
    with star_of(placement) as star:
        for number in range(job["turns"]):
            for name, link in LINKS.items():
                star.shape(link)
                turn: Turn = {"link": name}
                for work in (_ours, _theirs) if number % 2 else (_theirs, _ours):
                    turn |= work(star, placement.hosts, job["largest_bytes"])
                turns.append(turn)
                walls = f"{turn['our_wall_s']:.1f} s, NPtcp {turn['their_wall_s']:.1f} s"
                say(f"turn {number + 1} of {job['turns']}, {name}: {walls}")
    return turns


def _ours(star: Any, hosts: Sequence[Any], largest_bytes: int) -> Turn:
    with entered(star.namespaces[1]):
        listener = listening(hosts[1].address)
    began = monotonic()
    child = os.fork()
    if child == 0:
        become(hosts[1], star.namespaces[1])()
        answer(listener, TIMEOUT_S)
        os._exit(0)
    port = listener.getsockname()[1]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, hosts[0].cores)
    with entered(star.namespaces[0]):
        times_s, vanished = probe(
            hosts[1].address,
            port,
            sizes(largest_bytes),
            needs_more=lambda values: needs_repetition(values, MEASURE),
            timeout_s=TIMEOUT_S,
        )
    os.sched_setaffinity(0, cores)
    os.waitpid(child, 0)
    listener.close()
    assert vanished is None
    ours_s = {str(size): median_interval(values)[0] for size, values in times_s.items()}
    return {"ours_s": ours_s, "our_wall_s": monotonic() - began}


def _theirs(star: Any, hosts: Sequence[Any], largest_bytes: int) -> Turn:
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        began = monotonic()
        common = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(
            ["NPtcp", "-u", str(largest_bytes)], preexec_fn=become(hosts[1], star.namespaces[1]), **common
        ) as receiver:
            try:
                subprocess.run(
                    ["NPtcp", "-h", hosts[1].address, "-o", "np.out", "-u", str(largest_bytes)],
                    preexec_fn=become(hosts[0], star.namespaces[0]),
                    timeout=NETPIPE_TIMEOUT_S,
                    check=True,
                    **common,
                )
            finally:
                receiver.kill()
        wall_s = monotonic() - began
        curve = from_netpipe((Path(folder) / "np.out").read_text())
    return {"theirs_s": {str(size): values[0] for size, values in curve.items()}, "their_wall_s": wall_s}


if __name__ == "__main__":
    benchmark(main, inside)
