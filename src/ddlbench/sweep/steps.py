"""The steps of a repetition. How many there are is known before it starts; one that takes far too long is cut."""

from collections.abc import Iterable
from math import ceil
from time import monotonic

from ddlbench.devices.device import Replay
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.plan import Point
from ddlbench.protocol.measure import Measure
from ddlbench.protocol.messages import Trained

_PARTS = 4  # of a repetition: after each of them it can be cut
_OVERRUN = 20  # a repetition is cut when it has taken so many times its budget
_PILOT_STEPS = 3
_PILOT_SHARE = 0.5  # of a repetition's budget: what more pilot steps may take


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


def planned_steps(
    group: WorkerGroup, measure: Measure, replay: Replay | None = None, dilation: float = 1.0
) -> tuple[int, int]:
    """Plan how many steps each repetition of a point has, by steps that do not count, or by a time that is known.

    The fastest of them decides: one that waits for a lost packet says little about the others.

    Args:
        group: has the point prepared.
        measure: the budget of a repetition, and the bounds of its steps.
        replay: what a step takes at least, where compute is replayed; then no step is tried.
        dilation: of time.

    Returns:
        The steps of a repetition, and the steps that were trained to find it.
    """
    if replay:
        return _bounded(int(measure.step_budget_s * 1000 / (replay.step_ms * dilation)), measure), 0
    fastest_ms = _fastest_ms(group.train(1))
    more = min(_PILOT_STEPS, int(_PILOT_SHARE * measure.step_budget_s * 1000 / fastest_ms))
    if more:
        fastest_ms = min(fastest_ms, _fastest_ms(group.train(more)))
    return _bounded(int(measure.step_budget_s * 1000 / fastest_ms), measure), 1 + more


def train(group: WorkerGroup, steps: int, *, budget_s: float | None = None) -> list[list[Trained]]:
    """Train the steps of a repetition, in parts, from fresh parameters.

    Args:
        group: has the point prepared.
        steps: as planned.
        budget_s: the wall time that was planned for them. If they take far more, the rest is cut off. None: all are
            trained, in one part.

    Returns:
        The reports of all members, for each part that was trained.
    """
    if budget_s is None:
        return [group.train(steps, from_fresh=True)]
    parts: list[list[Trained]] = []
    last_start_s = monotonic() + _OVERRUN * budget_s
    for begin in range(0, steps, size := ceil(steps / _PARTS)):
        if parts and monotonic() > last_start_s:
            break
        parts.append(group.train(min(size, steps - begin), from_fresh=not parts))
    return parts


def joined_times_ms(parts: Iterable[Iterable[Trained]]) -> list[list[float]]:
    """Join the step times of a repetition's parts.

    Args:
        parts: the reports of all members, for each part.

    Returns:
        A list of step times in ms for each worker, by rank.
    """
    of_parts = (step_times_ms(part) for part in parts)
    return [[time for times in of_worker for time in times] for of_worker in zip(*of_parts, strict=True)]


def _bounded(steps: int, measure: Measure) -> int:
    """A number of steps between the fewest and the most."""
    return max(measure.min_steps, min(measure.max_steps, steps))


def _fastest_ms(reports: Iterable[Trained]) -> float:
    """The time of the fastest step; that of a step is its slowest worker's."""
    times_ms: list[float] = [max(of_step) for of_step in zip(*step_times_ms(reports), strict=False)]
    return min(times_ms)
