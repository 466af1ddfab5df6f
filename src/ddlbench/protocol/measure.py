"""How a point is measured, as the configuration's `measure` says."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """When a point has been measured often enough.

    Attributes:
        min_repetitions: measure at least so often.
        max_repetitions: and at most so often.
        interval_percent: stop when the half width of the interval is at most this percentage of the value.
    """

    min_repetitions: int
    max_repetitions: int
    interval_percent: float


@dataclass(frozen=True, kw_only=True)
class Measure(StopRule):
    """The stop rule, and how many steps a repetition has.

    Attributes:
        warmup_steps: steps that are not counted, after a link or the worker group is new.
        min_steps: the fewest timed steps of a repetition.
        max_steps: the most timed steps of a repetition.
        step_budget_s: the wall time that a repetition's steps are planned for, between min_steps and max_steps.
        lossy_interval_percent: `interval_percent` of points on links that lose packets.
        point_budget_s: the wall time for repetitions beyond the fewest, for each point of a worker group; those whose
            intervals they make narrow enough the soonest get it first.
        relaunch: each round of repetitions has a new worker group.
        trainings: the repetitions of a point that is trained to an accuracy.
        replayed: the repetitions of a point whose compute is replayed by waiting and whose steps are alike.
        recheck_s: a link is checked again after this time.
        seed: of every random choice.
    """

    warmup_steps: int
    min_steps: int
    max_steps: int
    step_budget_s: float
    lossy_interval_percent: float
    point_budget_s: float
    relaunch: bool
    trainings: int
    recheck_s: float
    seed: int
    replayed: int = 2
