"""Kills processes of ours at random: are records lost, is anything left, does the next start go on by itself?

python -m benchmarks.torture.kills [--kills 200] [--seed 1]

A tiny study on emulated hosts is measured for long. At a random moment a random process of it gets a random signal.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from benchmarks.common import say
from tests.support.pipeline import Pipeline, new_pipeline
from tests.support.remains import alive, namespaces, processes

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
FOR_LONG = {
    "min_steps": 5,
    "max_steps": 100_000,
    "step_budget_s": 1.0,
    "min_repetitions": 1000,
    "max_repetitions": 1000,
}
LATEST_S = (
    12.0  # of a kill, since the start or the kill before it: planning, launching and measuring are all met
)
END_S = 10.0  # after which nothing may be left of a call that ends
NEXT_S = 120.0  # until a start must have measured something


@dataclass(frozen=True)
class Kill:
    """One kill and what became of it.

    Attributes:
        signal: its name.
        victim: the process: its name and what it runs.
        ended: whether the call of Snakemake has ended by it.
        lost: records that were there before and are not any more, or differ.
        left: processes and namespaces that are left 10 s after the end.
        by_hand: whether the next start has not gone on by itself.
    """

    signal: str
    victim: str
    ended: bool
    lost: int
    left: tuple[str, ...] = ()
    by_hand: bool = False

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.left or self.by_hand)


def torture(pipeline: Pipeline, kills: int, random: Random) -> list[Kill]:
    """Measure, and kill one process after another.

    Args:
        pipeline: one that has its data set; it is configured to measure for long.
        kills: how many.
        random: draws moments, victims and signals.

    Returns:
        The kills, in order.
    """
    pipeline.configure({"measure": FOR_LONG})
    found: list[Kill] = []
    try:
        going = start(pipeline)
        for number in range(1, kills + 1):
            found.append(kill_one(pipeline, going, random))
            if found[-1].ended:
                before = len(pipeline.measurements())
                going = start(pipeline)
                if number == kills or random.random() < 0.25:  # the others may be killed while they plan
                    by_hand = not goes_on(pipeline, going, before)
                    found[-1] = Kill(**{**vars(found[-1]), "by_hand": by_hand})
            say(f"{number} of {kills}: {words(found[-1])}")
    finally:
        for process in processes(pipeline.root):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    return found


def start(pipeline: Pipeline) -> "subprocess.Popen[str]":
    """Start as `make run` does."""
    answer = pipeline.ddlbench("housekeeping")
    assert answer.returncode == 0, answer.stderr
    return pipeline.start("--cores", "all", pipeline.manifest("bandwidth"))


def kill_one(pipeline: Pipeline, going: "subprocess.Popen[str]", random: Random) -> Kill:
    sleep(random.uniform(0.0, LATEST_S))
    running = processes(pipeline.root)
    if not running:
        return Kill("none", "nothing ran: " + pipeline.said[-300:], ended=True, lost=0, by_hand=True)
    held, kept = namespaces(pipeline.root), pipeline.measurements()
    victim, number = random.choice(sorted(running)), random.choice(SIGNALS)
    with suppress(ProcessLookupError):
        os.kill(victim, number)
    until = monotonic() + END_S
    while going.poll() is None and monotonic() < until:
        sleep(0.05)
    ended = going.poll() is not None
    until = monotonic() + END_S
    while ended and (processes(pipeline.root) or alive(held)) and monotonic() < until:
        sleep(0.05)
    now = pipeline.measurements()
    return Kill(
        number.name,
        running[victim][:60],
        ended,
        lost=sum(now.get(name) != content for name, content in kept.items()),
        left=(*processes(pipeline.root).values(), *alive(held)) if ended else (),
    )


def goes_on(pipeline: Pipeline, going: "subprocess.Popen[str]", before: int) -> bool:
    """Whether a call measures something."""
    until = monotonic() + NEXT_S
    while len(pipeline.measurements()) <= before and going.poll() is None and monotonic() < until:
        sleep(0.1)
    return len(pipeline.measurements()) > before


def words(kill: Kill) -> str:
    found = [f"{kill.signal} to {kill.victim!r}:", "the call ends" if kill.ended else "the call goes on"]
    found += [f"LOST {kill.lost} RECORDS"] if kill.lost else []
    found += [f"LEFT {', '.join(kill.left)}"] if kill.left else []
    found += ["THE NEXT START NEEDS A HAND"] if kill.by_hand else []
    return " ".join(found)


def table(kills: Sequence[Kill], seed: int) -> str:
    """The kills as a Markdown table, a row for each signal."""
    counts = Counter(kill.signal for kill in kills)
    columns = (
        "times",
        "calls that ended",
        "lost records",
        f"leftovers after {END_S:.0f} s",
        "starts that need a hand",
    )
    heads = [f"kills of a bare study's processes (seed {seed})", *columns]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in [*sorted(counts), "all"]:
        those = [kill for kill in kills if name in (kill.signal, "all")]
        cells = [
            len(those),
            sum(kill.ended for kill in those),
            sum(kill.lost for kill in those),
            sum(len(kill.left) for kill in those),
            sum(kill.by_hand for kill in those),
        ]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture.kills")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="ddlbench-torture-") as folder:
        pipeline = new_pipeline(Path(folder) / "ddlbench")
        pipeline.run("results/datasets/digits-28x28x1.npz")
        kills = torture(pipeline, given.kills, Random(given.seed))
    print(table(kills, given.seed))
    return int(not all(kill.is_good for kill in kills))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
