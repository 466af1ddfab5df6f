"""Step time with telemetry against without: the same worker group, in short turns, interleaved.

The sampler lives as long as the group and is stopped (SIGSTOP) for every other turn. A pair's ratio is that of the mean
step times; each turn drops its first step. Turns differ by some per cent for other reasons, so it takes hundreds of
pairs, of several launches, to see one per cent: the number is their median, with its 95 % interval.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import (
    benchmark,
    digits,
    in_sandbox,
    options,
    python_of_workers,
    row,
    save,
    say,
)
from benchmarks.groups import Ours, hosts_on, ours, star_of, steps_for, two_cores
from benchmarks.watched import watched
from ddlbench.measurements.statistics import median_interval
from ddlbench.network.hosts import Placement
from ddlbench.network.link import Link
from ddlbench.network.star import Star

MODELS = ("mlp", "conv2")
BATCH_SIZE = 128
LINK = Link(1000)
AT_LEAST = 0.99


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, rounds=4, pairs=120, block_s=0.4)
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        job = {**vars(asked), "python": python_of_workers(), "dataset": digits(Path(folder))}
        limit_s = asked.rounds * (240 + 12 * len(MODELS) * asked.pairs * asked.block_s)
        rounds = in_sandbox("benchmarks.telemetry", job, timeout_s=limit_s)
    ratio, low, high = median_interval([each["ratio"] for found in rounds for each in found])
    rows = [
        row(
            "images/s with telemetry of every host at 10 Hz against without",
            at_least=f"{AT_LEAST}",
            measured=f"{ratio:.4f} ({low:.4f} to {high:.4f})",
            peer=f"the same worker group without ({', '.join(MODELS)}), 2 hosts, {LINK}, batch {BATCH_SIZE}",
            met=ratio >= AT_LEAST,
        )
    ]
    save(
        "telemetry",
        rows,
        {
            "ratio": {"median": ratio, "low": low, "high": high},
            "link": asdict(LINK),
            "asked": vars(asked),
            "rounds": rounds,
        },
    )


def inside(job: dict[str, Any]) -> list[list[dict[str, float]]]:
    """For each round and model, all pairs; a round launches the group anew."""
    placement = hosts_on(two_cores())
    found = []
    for number in range(1, job["rounds"] + 1):
        with (
            star_of(placement) as star,
            ours(star, placement, python=job["python"], dataset=job["dataset"], models=MODELS) as group,
        ):
            star.shape(LINK)
            for model in MODELS:
                found.append(list(_pairs(group, star, placement, model, job)))
                ratio = median(each["ratio"] for each in found[-1])
                say(f"round {number} of {job['rounds']}: {model}: {ratio:.4f}")
    return found


def _pairs(
    group: Ours, star: Star, placement: Placement, model: str, job: dict[str, Any]
) -> Iterator[dict[str, float]]:
    group.take(model, BATCH_SIZE)
    steps = steps_for(job["block_s"], group.train(20)[10:])
    with watched(group, star, placement) as telemetry:
        telemetry.begin(model, 0)

        def step_ms(sent: signal.Signals) -> float:
            os.kill(telemetry.pid, sent)
            return mean(group.train(steps + 1)[1:])

        for turn in range(job["pairs"]):
            if turn % 2:
                on_ms, off_ms = step_ms(signal.SIGCONT), step_ms(signal.SIGSTOP)
            else:
                off_ms, on_ms = step_ms(signal.SIGSTOP), step_ms(signal.SIGCONT)
            yield {"with_ms": on_ms, "without_ms": off_ms, "ratio": off_ms / on_ms}
        os.kill(telemetry.pid, signal.SIGCONT)


if __name__ == "__main__":
    benchmark(main, inside)
