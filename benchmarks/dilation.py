"""Time dilation: two hosts on two cores (k = 1) against the same two hosts on one core (k = 2), over the same link.

Three worker groups are alive, each in a sandbox of its own: k = 1 on both cores, and two equal ones with k = 2, one on
each core. They take turns: k = 1 alone, then both of k = 2 at once, so that both cores are as busy as they were. A
turn's ratio is the step time of k = 1 by the mean dilated step time (wall / k) of the two.

With `--hosts 4` four hosts on two cores (k = 2) are compared with four on one (k = 4). `--links` are Mbit/s:ms.

Where it may, it holds the cores awake, as the probe's benchmark does: how long a virtual core takes to wake up is not
dilated, and hosts with a core each wait for that more often.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from random import Random
from statistics import mean, median
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import psutil

from benchmarks.common import (
    benchmark,
    cores_awake,
    digits,
    in_sandbox,
    in_words,
    options,
    python_of_workers,
    row,
    save,
    say,
    spread,
)
from benchmarks.groups import hosts_on, ours, placement_from, star_of, steps_for, two_cores
from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import Placement
from ddlbench.network.link import Link
from ddlbench.sandbox.sandbox import outer_descriptors, sandboxed
from ddlbench.system.processes import die_with_parent

BATCH_SIZE = 128
WITHIN_PERCENT = 5.0
STOP_S = 30

Turn = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    defaults = {"models": "mlp,conv2", "links": "400:0,100:10,1000:1"}
    asked = options(__doc__, arguments, hosts=2, turns=30, turn_s=0.8, seed=1, **defaults)
    cells = [(model, link) for model in asked.models.split(",") for link in links(asked.links)]
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        job = {**vars(asked), "python": python_of_workers(), "dataset": digits(Path(folder))}
        job["cells"] = [(model, asdict(link)) for model, link in cells]
        limit_s = 300 + asked.turns * len(cells) * 10 * (asked.turn_s + 0.5)
        found = in_sandbox("benchmarks.dilation", job, timeout_s=limit_s)
    save("dilation", rows(asked.hosts, **found), {"asked": vars(asked), "batch_size": BATCH_SIZE, **found})


def links(words: str) -> list[Link]:
    """The links of words like 400:0,100:10, each a bandwidth in Mbit/s and a latency in ms.

    Raises DdlbenchError where they are others.
    """
    try:
        pairs = [map(float, each.split(":")) for each in words.split(",")]
        return [Link(bandwidth_mbit, latency_ms) for bandwidth_mbit, latency_ms in pairs]
    except ValueError:
        raise DdlbenchError(f"--links {words}: expected Mbit/s:ms, as in 400:0,100:10") from None


def rows(hosts: int, turns: Sequence[Turn], awake: bool) -> list[dict[str, Any]]:
    """The worst of all models and links."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for turn in turns:
        ratios.setdefault((turn["model"], turn["link"]), []).append(turn["ratio"])
    worst = max(ratios, key=lambda cell: abs(median(ratios[cell]) - 1))
    models, over = (list(dict.fromkeys(each)) for each in zip(*ratios, strict=True))
    missed = sum(abs(median(each) - 1) * 100 > WITHIN_PERCENT for each in ratios.values())
    return [
        row(
            f"dilation: step time of {hosts} hosts on 2 cores (k = {hosts / 2:g}), "
            f"{' and '.join(models)} on {len(over)} links" + ", cores held awake" * awake,
            at_least=f"ratio within {WITHIN_PERCENT:g} % of 1",
            measured=f"{in_words(spread(ratios[worst]))}: {', '.join(worst)}, the worst; {missed} of {len(ratios)} "
            "outside",
            peer=f"the same hosts on 1 core (k = {hosts})",
            met=missed == 0,
        )
    ]


def inside(job: Mapping[str, Any]) -> dict[str, Any]:
    """All turns; their order is random, and every other time one core comes first."""
    cores = two_cores()
    with ExitStack() as stack:
        awake = stack.enter_context(cores_awake())
        wide = stack.enter_context(server(hosts_on(cores, job["hosts"]), job))
        narrow = [stack.enter_context(server(hosts_on([core], job["hosts"]), job)) for core in cores]
        for each in (wide, *narrow):  # one after another: launching is not what is measured
            each.answer()
        cells = [(model, Link(**link)) for model, link in job["cells"]]
        steps = {}
        for model, link in cells:
            step_times_ms = wide.ask(model, link, 20).answer()
            steps[model, link] = steps_for(job["turn_s"], step_times_ms)
        order = Random(job["seed"])
        both = {"two_cores_ms": [wide], "one_core_ms": narrow}
        turns = []
        for number in range(job["turns"]):
            order.shuffle(cells)
            for model, link in cells:
                count = steps[model, link]
                times_ms: dict[str, float] = {}
                before, began = psutil.cpu_times().steal, monotonic()
                for name in both if number % 2 else reversed(both):
                    asked = [each.ask(model, link, count) for each in both[name]]
                    times_ms[name] = mean(mean(each.answer()) for each in asked)
                stolen_s = psutil.cpu_times().steal - before
                turns.append(
                    {
                        "stolen_percent": 100 * stolen_s / len(cores) / (monotonic() - began),
                        "model": model,
                        "link": str(link),
                        "steps": count,
                        **times_ms,
                        "ratio": times_ms["two_cores_ms"] / times_ms["one_core_ms"],
                    }
                )
            ratios = ", ".join(f"{turn['ratio']:.3f}" for turn in turns[-len(cells) :])
            say(f"turn {number + 1} of {job['turns']}: {ratios}")
    return {"turns": turns, "awake": awake}


class Server:
    """A worker group in a sandbox of its own, and the way to ask it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, model: str, link: Link, steps: int) -> "Server":
        """Begin to measure."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([model, asdict(link), steps]) + "\n")
        self._process.stdin.flush()
        return self

    def answer(self) -> list[float]:
        """Its step times without dilation, in milliseconds; at first, that it is ready."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DdlbenchError("a worker group died")
        times: list[float] = json.loads(line)
        return times


@contextmanager
def server(placement: Placement, job: Mapping[str, Any]) -> Iterator[Server]:
    """Start a worker group in a sandbox within this one."""
    serving = {name: job[name] for name in ("python", "dataset", "cells")}
    serving["placement"] = asdict(placement)
    with subprocess.Popen(
        sandboxed(
            [sys.executable, "-m", "benchmarks.dilation", "--serve", json.dumps(serving)], as_root=True
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=outer_descriptors(),
        preexec_fn=die_with_parent,
    ) as process:
        try:
            yield Server(process)
            process.communicate(timeout=STOP_S)  # the end of its input is the end of its work
        finally:
            process.kill()


def serve(job: Mapping[str, Any]) -> None:
    """Measure what each line of the input asks for, until it ends."""
    placement = placement_from(job["placement"])
    models = sorted({model for model, _ in job["cells"]})
    shaped = None
    with (
        star_of(placement) as star,
        ours(star, placement, python=job["python"], dataset=job["dataset"], models=models) as group,
    ):
        print("[]", flush=True)
        for line in sys.stdin:
            model, values, steps = json.loads(line)
            if (link := Link(**values)) != shaped:
                star.shape(link)
                shaped = link
            step_times_ms = group.step_times_ms(model, BATCH_SIZE, steps)
            print(json.dumps([each / placement.dilation for each in step_times_ms]), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(json.loads(sys.argv[2]))
    else:
        benchmark(main, inside)
