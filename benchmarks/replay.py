"""Replayed compute: against itself at four times the dilation, against arithmetic, and a CPU's against real compute.

What is compared (`--compare`, several by commas; all by default), on cases drawn at random (`benchmarks.replay_cases`,
`--seed`):

- dilations: a step that overlaps with communication, at the time dilation k that ddlbench's rule gives and at 4 k, in
  every framework and strategy that replays (`--systems torch:ring_allreduce,...`), five models, four links, 2 to 8
  workers; an asynchronous server's workers make four times as many steps;
- arithmetic: a step whose time passes in the forward pass, so that nothing overlaps, against this time and what the
  bytes take at the link's rate, where that is exact;
- burning: two hosts with a core each that train a small model, against the same hosts that replay its profile, which
  `ddlbench profile` takes alone in each turn, at k = 1.

Both sides of a comparison take turns in random order. A ratio is that of step times as without dilation. Each
comparison has a file of results. The first two take hours: one that was broken off goes on with the cases that its file
lacks, when it is started again with the same options, code and processor, also days later.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from math import ceil
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks import groups, replay_cases
from benchmarks.common import (
    ENVIRONMENT,
    RESULTS,
    benchmark,
    code_version,
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
from benchmarks.groups import DIGITS, group_of, hosts_on, two_cores
from benchmarks.replay_cases import EXACT, IMAGES, SYSTEMS, Case, SmallCase, drawn, drawn_small
from ddlbench.errors import DdlbenchError
from ddlbench.figures.words import counted
from ddlbench.hosts.group_on_hosts import GroupOnHosts
from ddlbench.measurements.facts import gather
from ddlbench.network.hosts import place_waiting
from ddlbench.plan.catalogue import FRAMEWORKS
from ddlbench.probes.step_profile import Asked, profiled
from ddlbench.protocol.messages import ModelShape, ReplayedStep, TrainingPoint
from ddlbench.sweep.measured_dilation import LEAST, MARGIN, rounded_up
from ddlbench.telemetry.waiting import Waiting
from ddlbench.workers.strategies import STRATEGIES

WITHIN_PERCENT = {"dilations": 3.0, "arithmetic": 2.0, "burning": 7.0}
OWN_WORK = 0.05  # what moving the bytes may take of the cores over a step, as a run allows
PROFILE_S = 600.0
STEPS_OF_ASYNCHRONOUS = 4  # for each of another strategy: when the other workers come is chance

Turn = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    asked = options(
        __doc__,
        arguments,
        compare=",".join(WITHIN_PERCENT),
        systems=",".join(map(":".join, SYSTEMS)),
        cases=1,
        small_cases=12,
        steps=2,
        turns=3,
        seed=1,
    )
    systems = [
        (name, strategy) for name, _, strategy in (each.partition(":") for each in asked.systems.split(","))
    ]
    if unknown := [":".join(each) for each in systems if each not in SYSTEMS]:
        raise DdlbenchError(
            f"--systems {','.join(unknown)}: expected some of {','.join(map(':'.join, SYSTEMS))}"
        )
    for name in asked.compare.split(","):
        if name not in WITHIN_PERCENT:
            raise DdlbenchError(f"--compare {name}: expected some of {', '.join(WITHIN_PERCENT)}")
        found: list[Turn] = []
        if name == "burning":
            count = asked.small_cases
            parts = burning(count, asked.turns, asked.seed)
        else:
            exact = name == "arithmetic"
            of_all = drawn(asked.cases, asked.seed, EXACT if exact else SYSTEMS, without_latency=exact)
            cases = [each for each in of_all if (each.framework, each.strategy) in systems]
            count = len(cases)
            found = broken_off(name, vars(asked), count)
            measured = {turn["case"] for turn in found}
            lacking = [case for case in cases if str(case) not in measured]
            parts = waiting(name, lacking, asked.turns, asked.steps, asked.seed)
        for turns in parts:  # hours may pass between them: what was found is kept
            found += turns
            save(
                f"replay_{name}",
                [row_of(name, found, asked.seed, count)],
                {"asked": vars(asked), "method_sha256": method_sha256(), "turns": found},
            )


def broken_off(name: str, asked: Mapping[str, Any], count: int) -> list[Turn]:
    """The turns of a run of the same options, code and processor that did not come to the last of so many cases."""
    file = RESULTS / f"replay_{name}.json"
    if not file.exists():
        return []
    saved = json.loads(file.read_text())
    same = (
        saved["asked"] == asked
        and saved.get("method_sha256") == method_sha256()
        and saved["code"]["sha256"] == code_version()["sha256"]
        and saved["machine"]["cpu_model"] == gather()["cpu_model"]
    )
    turns: list[Turn] = saved["turns"]
    return turns if same and len({turn["case"] for turn in turns}) < count else []


def method_sha256() -> str:
    """The content of what decides, beside the package, what comes out."""
    files = [__file__, replay_cases.__file__, groups.__file__]
    return sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()


def row_of(name: str, turns: Sequence[Turn], seed: int, count: int) -> dict[str, Any]:
    """A comparison's row: its worst case decides; of so many, each has to be measured."""
    ratios: dict[str, list[float]] = {}
    for turn in turns:
        ratios.setdefault(turn["case"], []).append(turn["ratio"])
    off = {case: 100 * abs(median(each) - 1) for case, each in ratios.items()}
    worst, within = max(off, key=lambda case: off[case]), WITHIN_PERCENT[name]
    missed, left = sum(each > within for each in off.values()), count - len(off)
    what, peer = {
        "dilations": ("replayed step time at 4 k", "the same group at k"),
        "arithmetic": ("replayed step time without overlap", "compute + bytes / rate"),
        "burning": ("a CPU's replayed step time, k = 1", "the same hosts that compute"),
    }[name]
    return row(
        what,
        at_least=f"worst median within {within:g} %",
        measured=f"{in_words(spread(ratios[worst]))}: {worst}, the worst; {missed} of {len(off)} outside, half within "
        f"{median(off.values()):.2g} %" + (f"; {left} cases are not measured" if left else ""),
        peer=f"{peer}; cases drawn with seed {seed}, n = {counted(len(ratios[worst]), 'turn')}",
        met=missed == 0 and not left,
    )


def waiting(name: str, cases: Sequence[Case], turns: int, steps: int, seed: int) -> Iterator[list[Turn]]:
    """All turns of each case whose compute is replayed by waiting; a case has a sandbox of its own."""
    for number, case in enumerate(cases, start=1):
        python = python_of_workers(FRAMEWORKS[case.framework].environment)
        job = {
            "what": name,
            "case": asdict(case),
            "python": python,
            "turns": turns,
            "steps": steps,
            "seed": seed,
        }
        of_case = in_sandbox("benchmarks.replay", job, timeout_s=4 * 3600)
        ratio = median(each["ratio"] for each in of_case)
        say(f"{name} {number} of {len(cases)}: {case}, k = {of_case[0]['k']:g}: {ratio:.3f}")
        yield of_case


def burning(count: int, turns: int, seed: int) -> Iterator[list[Turn]]:
    """Turns of all cases that are replayed by burning CPU time: a case's profile and both groups follow each other."""
    cases, random, python = drawn_small(count, seed), Random(seed), python_of_workers()
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        dataset = digits(Path(folder))
        for turn in range(1, turns + 1):
            found: list[Turn] = []
            for case in cases:
                step = asdict(profile(case))  # in each turn, as a machine is not always as fast
                job = {"what": "burning", "case": asdict(case), "python": python, "dataset": dataset}
                times_ms: dict[bool, float] = {
                    replayed: in_sandbox(
                        "benchmarks.replay", job | {"step": step if replayed else None}, timeout_s=600
                    )
                    for replayed in random.sample((True, False), 2)
                }
                ratio = times_ms[True] / times_ms[False]
                found.append({"case": str(case), "ratio": ratio, "real_ms": times_ms[False]})
            say(f"burning: turn {turn} of {turns}")
            yield found


def profile(case: SmallCase) -> ReplayedStep:
    """The step of a worker alone on a core, as `ddlbench profile` measures it."""
    shape = "x".join(map(str, DIGITS))
    asked = Asked(
        model=case.model, image_shape=shape, batches=[case.batch], devices="cpu", threads=1, steps=50
    )
    (device,) = profiled(asked, ENVIRONMENT, timeout_s=PROFILE_S).values()
    (found,) = device["profiles"]
    return ReplayedStep("cpu", found["forward_ms"], found["backward_ms"], found["optimizer_ms"])


def inside(job: Mapping[str, Any]) -> Any:
    """One case of GPUs with all its turns; or one of CPUs, once: its step time in ms."""
    if job["what"] == "burning":
        return small_step_ms(job)
    case, random = Case(**job["case"]), Random(job["seed"])
    hosts = case.workers + case.servers
    memory = psutil.virtual_memory().available
    placement = place_waiting(
        hosts, cores=two_cores(), available_memory_bytes=memory, dilation=LEAST, servers=case.servers
    )
    with group_of(
        placement, case.framework, case.strategy, case.workers, job["python"], replayed=True
    ) as group:
        group.group.connect([ModelShape(case.model, IMAGES)])
        k = dilation_for(group, case)
        found: list[Turn] = []
        for _ in range(job["turns"]):
            if job["what"] == "arithmetic":
                step_ms = step_time_ms(group, case, case.forward_only(), k, job["steps"])
                found.append({"case": str(case), "k": k, "ratio": step_ms / case.arithmetic_ms()})
                continue
            times_ms = {
                factor: step_time_ms(group, case, case.overlapping(), factor * k, job["steps"])
                for factor in random.sample((1, 4), 2)
            }
            found.append({"case": str(case), "k": k, "ratio": times_ms[4] / times_ms[1], "ms": times_ms[1]})
        return found


def dilation_for(group: GroupOnHosts, case: Case) -> float:
    """The least dilation with which moving a step's bytes takes no more of the cores than a run allows."""
    assert group.hosts.star is not None
    step = case.forward_only()
    group.group.prepare(case.point(replace(step, forward_ms=0.0)), 1)
    working = Waiting(group.group.pids())
    steps = 1 + case.stagger(LEAST).uncounted
    group.group.train(steps, from_fresh=True)
    work_ms = sum(each["ran_ms"] for each in working.since_start()) / steps
    allowed_ms = OWN_WORK * len(group.hosts.hosts[0].cores) * case.least_step_ms()
    return rounded_up(max(LEAST, MARGIN * work_ms / allowed_ms))


def step_time_ms(group: GroupOnHosts, case: Case, step: ReplayedStep, k: float, steps: int) -> float:
    """The mean time of steps at a dilation, of the slowest worker, as without dilation."""
    star = group.hosts.star
    assert star is not None
    star.shape(None)
    group.dilate(k, case.arithmetic_ms())
    group.group.prepare(case.point(replace(step, dilation=k)), 1)
    star.shape(case.link)
    if case.latency_ms:  # TCP's windows must have grown; else each step is as long as the first
        group.group.train(1, from_fresh=True)
    if not STRATEGIES[case.strategy].is_synchronous:
        steps *= STEPS_OF_ASYNCHRONOUS
    stagger = case.stagger(k)
    reports = group.group.train(
        steps + stagger.uncounted, from_fresh=not case.latency_ms, delay_s=stagger.delay_s
    )
    return max(sum(times) for each in reports for times in stagger.counted(each).step_times_ms) / steps / k


def small_step_ms(job: Mapping[str, Any]) -> float:
    """The median step time of a case of CPUs, real or replayed, in a group of two."""
    case, step = SmallCase(**job["case"]), job["step"] and ReplayedStep(**job["step"])
    datasets = {f"digits-{'x'.join(map(str, DIGITS))}": job["dataset"]}
    placement, python = hosts_on(two_cores()), job["python"]
    with group_of(
        placement, "torch", "ring_allreduce", 2, python, replayed=bool(step), datasets=datasets
    ) as group:
        assert group.hosts.star is not None
        group.hosts.star.shape(None)
        group.group.connect([ModelShape(case.model, DIGITS)])
        group.hosts.star.shape(case.link)
        group.group.prepare(TrainingPoint(case.model, DIGITS, "digits", 2 * case.batch, 0.01, 0.0, step), 1)
        pilot = group.group.train(3, from_fresh=True)[0].step_times_ms[0]
        reports = group.group.train(ceil(1000 / median(pilot)))
        return max(median(each.step_times_ms[0]) for each in reports)


if __name__ == "__main__":
    benchmark(main, inside)
