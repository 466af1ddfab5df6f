"""The steps of a repetition. How many there are is known before it starts; one that takes far too long is cut."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from time import monotonic

from ddlbench.devices.alike import steps_are_alike
from ddlbench.launch.group_member import WorkerStalled
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.plan import Point
from ddlbench.protocol.measure import Measure
from ddlbench.protocol.messages import Trained
from ddlbench.sweep.link_monitor import link_of
from ddlbench.sweep.stagger import AT_ONCE, Stagger

_OVERRUN = 20  # a repetition is cut when it has taken so many times its budget,
_SLOW_STEP_S = 1.0  # and so long for each step: a lossy link may make it wait for several time-outs
FEWEST_OF_LOSSY = 8  # steps: with fewer, repetitions on a link that loses packets seldom meet a time-out
_PILOT_STEPS = 3
_PILOT_SHARE = 0.5  # of a repetition's budget: what more pilot steps may take
_GROWN_AFTER = 10  # round trips: TCP doubles its first window, of ten segments, to ten thousand
_HARDLY_ANY_MS = 0.1  # of a replayed step, which takes tens or hundreds


@dataclass(frozen=True)
class TrainedSteps:
    """The steps of a repetition, in parts.

    Attributes:
        parts: the reports of all members, for each part.
        stagger: says which steps of each part do not count.
        stalled_s: how long another part had taken when it was given up, as no step was made any more; None: all ended.
    """

    parts: Sequence[Sequence[Trained]]
    stagger: Stagger = AT_ONCE
    stalled_s: float | None = None

    @property
    def times_ms(self) -> list[list[float]]:
        """The times of all steps in ms, also of those that do not count, for each worker."""
        return joined_times_ms([*self.parts, *self._stalled])

    @property
    def steps_of_a_worker(self) -> float:
        """How many steps a worker has made on average, also those that do not count or are not reported."""
        reports = [report for part in self.parts for report in part]
        made = sum(report.made_steps or sum(map(len, report.step_times_ms)) for report in reports)
        return made / len(self.times_ms)

    @property
    def counted(self) -> list[list[Trained]]:
        """The reports, for each part, without what does not count; a part that was given up counts as one step."""
        counted = [[self.stagger.counted(report) for report in part] for part in self.parts]
        return [*counted, *self._stalled]

    @property
    def _stalled(self) -> list[list[Trained]]:
        """What there would be of the part that was given up, had it been one step; its means are of the part before."""
        if self.stalled_s is None:
            return []
        step_ms = 1000 * self.stalled_s
        return [
            [
                replace(report, step_times_ms=[[step_ms] for _ in report.step_times_ms])
                for report in self.parts[-1]
            ]
        ]

    @property
    def uncounted_steps(self) -> int:
        """Of all parts, how many do not count."""
        return self.stagger.uncounted * len(self.parts)


def step_times_ms(reports: Iterable[Trained]) -> list[list[float]]:
    """Collect the step times from the members' reports.

    Args:
        reports: of all members; each reports the times of one worker, of several or of none.

    Returns:
        A list of step times in ms for each worker, by rank.
    """
    return [list(times) for report in reports for times in report.step_times_ms]


def steps_of_training(point: Point, train_images: int) -> int | None:
    """Count the steps of a training to an accuracy.

    Args:
        point: of the plan.
        train_images: of its data set.

    Returns:
        The steps of all its epochs; None if the point is only timed.
    """
    return point.epochs * (point.steps_per_epoch or ceil(train_images / point.batch_size)) or None


def parts_of_test(point: Point, test_images: int) -> int:
    """Count the parts in which test images are tested: each has as many as a worker's step, which fit into memory.

    Args:
        point: of the plan.
        test_images: of its data set.

    Returns:
        The parts.
    """
    return ceil(test_images / ceil(point.batch_size / point.workers))


def planned_steps(group: WorkerGroup, measure: Measure, point: Point, dilation: float) -> tuple[int, int]:
    """Plan how many steps each repetition of a point has, by steps that do not count, or by a time that is known.

    The fastest of them decides: one that waits for a lost packet says little about the others. On a link that loses
    packets all of them may have waited, so there are some steps in any case, which may take longer than the budget.
    Where compute is replayed no step is tried: its time is known. If all steps are alike, one is enough.

    Args:
        group: has the point prepared.
        measure: the budget of a repetition, and the bounds of its steps.
        point: that is prepared.
        dilation: of time.

    Returns:
        The steps of a repetition, and the steps that were trained to find it.
    """
    fewest, stagger = _fewest(measure, point), Stagger.of(point, dilation)

    def planned(step_ms: float) -> int:
        """As many as fit beside those that do not count, between the fewest and the most."""
        fit = _fitting(measure, step_ms)
        return min(measure.max_steps, max(fewest, fit - stagger.uncounted * stagger.parts_of(fit)))

    if point.replay:
        return planned(point.slowest_replay_ms * dilation), 0
    fastest_ms = _fastest_ms(group.train(1))
    more = min(_PILOT_STEPS, _fitting(measure, fastest_ms / _PILOT_SHARE))
    if more:
        fastest_ms = min(fastest_ms, _fastest_ms(group.train(more)))
    return planned(fastest_ms), 1 + more


def _fitting(measure: Measure, step_ms: float) -> int:
    """How many steps of such a time fit into a repetition's budget."""
    return int(measure.step_budget_s * 1000 / step_ms)


def warm_up(group: WorkerGroup, measure: Measure) -> int:
    """Train the first steps, which do not count: as many as `measure` says, but no longer than a repetition may take.

    Args:
        group: has the point prepared.
        measure: the most of these steps; one of them is trained even if it takes longer.

    Returns:
        How many were trained.
    """
    if not measure.warmup_steps:
        return 0
    more = min(measure.warmup_steps - 1, _fitting(measure, _fastest_ms(group.train(1))))
    if more:
        group.train(more)
    return 1 + more


def is_cold_for(point: Point, *, new_link: bool, new_connections: bool) -> bool:
    """Tell whether the first steps of a point would be slower than those of the rest of a training.

    Replayed compute has no caches to warm up. But TCP's windows must have grown, for which the first step over new
    connections takes up to 41 % longer on a link with latency; later repetitions, on other links too, find them wide
    enough. The windows grow in some round trips, which take no time between hosts beside each other.

    Args:
        point: of the plan.
        new_link: whether nothing was trained on its link since that was made.
        new_connections: whether nothing was trained over the workers' connections.

    Returns:
        Whether steps must come first that do not count.
    """
    if not point.replay:
        return new_link or new_connections
    growth_ms = _GROWN_AFTER * 2 * (point.latency_ms or 0.0)
    return new_connections and (point.sites is not None or growth_ms > _HARDLY_ANY_MS)


def _fewest(measure: Measure, point: Point) -> int:
    """The fewest steps that say something about a point: one where all are alike."""
    link = link_of(point)
    if link and link.is_lossy:
        return max(measure.min_steps, FEWEST_OF_LOSSY)
    return 1 if steps_are_alike(point.as_dict()) else measure.min_steps


def train(
    group: WorkerGroup, steps: int, *, budget_s: float | None = None, stagger: Stagger = AT_ONCE
) -> TrainedSteps:
    """Train the steps of a repetition, in parts, from fresh parameters; print why one was given up.

    Args:
        group: has the point prepared.
        steps: as planned.
        budget_s: the wall time that was planned for them. If they take far more, the rest is cut off. None: all are
            trained, in one part, and count: a training is also its beginning and its end.
        stagger: how workers begin; its steps that do not count are trained besides.

    Returns:
        What was trained.

    Raises:
        WorkerStalled: no step is made any more, and no part has ended before.
    """
    if budget_s is None:
        return TrainedSteps([group.train(steps, from_fresh=True)])
    parts: list[list[Trained]] = []
    last_start_s = monotonic() + max(_OVERRUN * budget_s, _SLOW_STEP_S * steps)
    size = ceil(steps / stagger.parts_of(steps))
    for begin in range(0, steps, size):
        if parts and monotonic() > last_start_s:
            break
        counted = min(size, steps - begin)
        try:
            part = group.train(counted + stagger.uncounted, from_fresh=not parts, delay_s=stagger.delay_s)
        except WorkerStalled as error:
            if not parts:
                raise
            print(error, file=sys.stderr, flush=True)
            return TrainedSteps(parts, stagger, error.lasted_s)
        parts.append(part)
    return TrainedSteps(parts, stagger)


def joined_times_ms(parts: Iterable[Iterable[Trained]]) -> list[list[float]]:
    """Join the step times of a repetition's parts.

    Args:
        parts: the reports of all members, for each part.

    Returns:
        A list of step times in ms for each worker, by rank.
    """
    of_parts = (step_times_ms(part) for part in parts)
    return [[time for times in of_worker for time in times] for of_worker in zip(*of_parts, strict=True)]


def _fastest_ms(reports: Iterable[Trained]) -> float:
    """The time of the fastest step; that of a step is its slowest worker's."""
    times_ms: list[float] = [max(of_step) for of_step in zip(*step_times_ms(reports), strict=False)]
    return min(times_ms)
