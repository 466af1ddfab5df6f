"""Replayed compute of GPUs: against arithmetic where that is exact, and at one time dilation against four times that.

Where all time passes in the forward pass, nothing overlaps: a step takes that time and then what the ring's bytes take
at the link's rate. Where it passes in the backward pass, buckets overlap with it, and steps at k and at 4 k are
compared. Groups with both dilations take turns, in one sandbox after another.
"""

import os
from collections.abc import Mapping, Sequence
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.common import (
    benchmark,
    in_sandbox,
    in_words,
    options,
    python_of_workers,
    row,
    save,
    say,
    spread,
)
from benchmarks.groups import TIMEOUTS, two_cores
from ddlbench.devices.division import Rates, divided
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.hosts.group_on_hosts import GroupOnHosts, launched
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.roles import members, worker_of
from ddlbench.network.hosts import place_waiting
from ddlbench.network.link import Link
from ddlbench.protocol.messages import ModelShape, ReplayedStep, TrainingPoint
from ddlbench.workers.common.memory import parameter_bytes

LARGE = (224, 224, 3)
RATES = Rates(tflops=15.7, memory_gbytes_per_s=900)
DATA_OF_WIRE = 1448 / 1514  # TCP's data of the frames that are counted
WITHIN_PERCENT, OF_ARITHMETIC_PERCENT = 3.0, 2.0

Turn = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    asked = options(
        __doc__,
        arguments,
        models="resnet50,resnet152,vgg16",
        links="1000,10000",
        workers="2,4",
        dilation=8,
        turns=5,
        step_ms=300.0,
    )
    turns: list[Turn] = []
    for turn in range(asked.turns):
        for workers in map(int, asked.workers.split(",")):
            for dilation in (asked.dilation, 4 * asked.dilation):
                job = {**vars(asked), "python": python_of_workers(), "workers": workers, "dilation": dilation}
                turns += in_sandbox("benchmarks.replay", job, timeout_s=1800)
        say(f"turn {turn + 1} of {asked.turns}")
    save("replay", rows(turns, asked.dilation), {"asked": vars(asked), "turns": turns})


def rows(turns: Sequence[Turn], dilation: float) -> list[dict[str, Any]]:
    """The worst of all cases, for each of the two comparisons."""
    by_arithmetic: dict[str, list[float]] = {}
    of_dilations: dict[str, dict[float, list[float]]] = {}
    for turn in turns:
        by_arithmetic.setdefault(turn["case"], []).append(turn["exact_ms"] / turn["arithmetic_ms"])
        of_dilations.setdefault(turn["case"], {}).setdefault(turn["dilation"], []).append(
            turn["overlapped_ms"]
        )
    ratios = {
        case: [slow / fast for fast, slow in zip(times[dilation], times[4 * dilation], strict=True)]
        for case, times in of_dilations.items()
    }
    return [
        _row(
            "replayed steps without overlap", "compute + bytes / rate", by_arithmetic, OF_ARITHMETIC_PERCENT
        ),
        _row(
            f"replayed steps with overlap at k = {4 * dilation:g}",
            f"the same at k = {dilation:g}",
            ratios,
            WITHIN_PERCENT,
        ),
    ]


def _row(
    what: str, peer: str, ratios: Mapping[str, Sequence[float]], within_percent: float
) -> dict[str, Any]:
    worst = max(ratios, key=lambda case: abs(median(ratios[case]) - 1))
    missed = sum(abs(median(each) - 1) * 100 > within_percent for each in ratios.values())
    return row(
        what,
        at_least=f"ratio within {within_percent:g} % of 1",
        measured=f"{in_words(spread(ratios[worst]))}: {worst}, the worst; {missed} of {len(ratios)} outside",
        peer=peer,
        met=missed == 0,
    )


def inside(job: Mapping[str, Any]) -> list[Turn]:
    """Each model on each link, with one dilation and number of workers."""
    models, workers, dilation = job["models"].split(","), job["workers"], float(job["dilation"])
    memory = psutil.virtual_memory().available
    placement = place_waiting(workers, cores=two_cores(), available_memory_bytes=memory, dilation=dilation)
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        group_job = GroupJob(
            run="benchmark",
            worker=worker_of("torch", "ring_allreduce", replayed=True),
            strategy="ring_allreduce",
            fabric="emulated",
            placement=placement,
            members=members("torch", "ring_allreduce", workers, workers),
            environments={"bare": RuntimeEnvironment(job["python"])},
            timeouts=TIMEOUTS,
            inherited=dict(os.environ),
            logs=folder,
        )
        with launched(group_job) as group:
            group.group.connect([ModelShape(model, LARGE) for model in models])
            return [
                measured(group, model, workers, Link(float(rate)), dilation, job["step_ms"])
                for rate in job["links"].split(",")
                for model in models
            ]


def measured(
    group: GroupOnHosts, model: str, workers: int, link: Link, dilation: float, step_ms: float
) -> Turn:
    """The times of steps without and with overlap, as without dilation, beside what arithmetic says of the first."""
    assert group.hosts.star is not None
    group.hosts.star.shape(link)
    division = divided(model, LARGE, 32, step_ms, RATES)
    nothing = [0.0] * len(division.backward_ms)
    exact = ReplayedStep("gpu", step_ms, nothing, 0.0)
    overlapped = ReplayedStep("gpu", division.forward_ms, division.backward_ms, division.optimizer_ms)
    sent_bytes = 2 * (workers - 1) / workers * parameter_bytes(model, LARGE)
    return {
        "case": f"{model}, {workers} workers, {link.bandwidth_mbit:g} Mbit/s",
        "dilation": dilation,
        "exact_ms": step_time_ms(group, model, exact) / dilation,
        "overlapped_ms": step_time_ms(group, model, overlapped) / dilation,
        "arithmetic_ms": step_ms + sent_bytes * 8 / (link.bandwidth_mbit * DATA_OF_WIRE) / 1e3,
    }


def step_time_ms(group: GroupOnHosts, model: str, step: ReplayedStep) -> float:
    """The median time of three steps, of the slowest worker, in wall time."""
    point = TrainingPoint(model, LARGE, "synthetic", 32, 0.01, 0.0, step)
    group.group.prepare(point, 1)
    reports = group.group.train(3, from_fresh=True)
    return median(max(times) for times in zip(*(each.step_times_ms[0] for each in reports), strict=True))


if __name__ == "__main__":
    benchmark(main, inside)
