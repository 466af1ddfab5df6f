"""How a point is measured, as the configuration's `measure` says."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """When a point has been measured often enough.

    Attributes:
        min_repetitions: the fewest repetitions.
        max_repetitions: the most repetitions.
        interval_percent: stop when the half width of the interval is at most this percentage of the median.
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
        step_budget_s: the time that a repetition's steps may take; it decides between min_steps and max_steps.
        recheck_s: a link is checked again after this time.
        seed: of every random choice.
    """

    warmup_steps: int
    min_steps: int
    max_steps: int
    step_budget_s: float
    recheck_s: float
    seed: int
