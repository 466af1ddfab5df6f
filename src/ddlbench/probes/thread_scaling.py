"""What a step takes with one thread and with several: groups of one worker, each with a number of threads and cores.

They are on this machine, each with a loopback of its own, and train in turns. The process in the sandbox is `main`.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from statistics import mean

from ddlbench.hosts.group_on_hosts import launched
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.protocol.messages import ModelShape, TrainingPoint
from ddlbench.sandbox.job import do
from ddlbench.shares.amdahl import speedup
from ddlbench.system.namespaces import entered, new_network_namespace
from ddlbench.telemetry.other_load import LoadWatch, wait_for_others

MODULE = "ddlbench.probes.thread_scaling"
_FEWEST = 5
_MOST = 20
_PILOT_STEPS = 2
_TRIES = 3
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class ThreadsJob:
    """What is measured.

    Attributes:
        groups: of one worker each, which differ in threads and cores.
        points: what each trains; the batch is that of one worker.
        vcpus: of each point's host: the threads whose speed-up is asked for, more than there may be cores.
        interval_percent: repetitions go on until half of the speed-up's interval is at most this percentage of it.
        seed: of the order, and of the points.
        repetition_s: how long a repetition takes; threads are faster once they have worked for a tenth of a second, so
            this should be as long as the repetitions of runs.
        most_steps: of a repetition.
        most_others_percent: what others may take of the cores meanwhile; None: that is not judged.
    """

    groups: Sequence[GroupJob]
    points: Sequence[TrainingPoint]
    vcpus: Sequence[int]
    interval_percent: float
    seed: int
    repetition_s: float
    most_steps: int
    most_others_percent: float | None


@dataclass(frozen=True)
class ThreadTimes:
    """The mean time of a step in ms, for each repetition, with a number of threads."""

    threads: int
    step_ms: Sequence[float]


@dataclass(frozen=True)
class Scaling:
    """What was measured of a point; `why_not` says why nothing was."""

    of_threads: Sequence[ThreadTimes]
    why_not: str | None = None


@dataclass(frozen=True)
class Scalings:
    """The answer of the process in the sandbox: one for each point."""

    of_points: Sequence[Scaling]


def measured(job: ThreadsJob) -> Scalings:
    """Train each point with each number of threads, in turns.

    Args:
        job: the groups and the points.

    Returns:
        For each point its times.

    Raises:
        DdlbenchError: a group could not be started, or a worker has died.
    """
    order = Random(job.seed)
    with ExitStack() as stack:
        groups = {each.placement.hosts[0].threads: _launched(each, stack) for each in job.groups}
        models = sorted({point.key for point in job.points})
        for group in groups.values():
            group.connect([ModelShape(*key) for key in models])
        return Scalings(
            [
                _scaling(groups, point, vcpus, job, order)
                for point, vcpus in zip(job.points, job.vcpus, strict=True)
            ]
        )


def _launched(job: GroupJob, stack: ExitStack) -> WorkerGroup:
    """Start a group in a network namespace of its own, as all listen at the same ports."""
    namespace = new_network_namespace()
    stack.callback(os.close, namespace)
    with entered(namespace):
        return stack.enter_context(launched(job)).group


def _scaling(
    groups: Mapping[int, WorkerGroup], point: TrainingPoint, vcpus: int, job: ThreadsJob, order: Random
) -> Scaling:
    steps = {}
    for threads, group in groups.items():
        if not all(reply.fits for reply in group.prepare(point, job.seed)):
            return Scaling((), f"a step of {point.batch_size} images does not fit into memory")
        group.train(1)
        step_ms = _step_ms(group, _PILOT_STEPS)
        steps[threads] = max(1, min(job.most_steps, int(1000 * job.repetition_s / step_ms)))
    for left in reversed(range(_TRIES)):
        watch = LoadWatch()
        times_ms: dict[int, list[float]] = {threads: [] for threads in groups}
        while needs_repetition(times_ms, vcpus, job.interval_percent):
            for threads in order.sample(list(groups), len(groups)):
                times_ms[threads].append(_step_ms(groups[threads], steps[threads]))
        load = watch.since_start()
        most_percent = job.most_others_percent
        if most_percent is None or load is None or not load.exceeds(most_percent):
            return Scaling([ThreadTimes(threads, each) for threads, each in times_ms.items()])
        if left:
            wait_for_others(_PATIENCE_S, most_percent)
    return Scaling((), f"{load} in each of {_TRIES} tries")


def needs_repetition(times_ms: Mapping[int, Sequence[float]], vcpus: int, interval_percent: float) -> bool:
    """Say whether a speed-up is not known well enough yet.

    Args:
        times_ms: number of threads -> times of a step in ms, one for each repetition; as many for each number.
        vcpus: the threads whose speed-up is asked for.
        interval_percent: half of its interval should be at most this percentage of it.

    Returns:
        True if there are too few repetitions, or the interval is too wide and more are allowed.
    """
    count = min(map(len, times_ms.values()))
    if count < _FEWEST:
        return True
    return count < _MOST and speedup(times_ms, vcpus).half_width_percent > interval_percent


def _step_ms(group: WorkerGroup, steps: int) -> float:
    """The mean time of some steps of the one worker."""
    return mean(time for report in group.train(steps) for times in report.step_times_ms for time in times)


if __name__ == "__main__":
    sys.exit(do(ThreadsJob, measured))
