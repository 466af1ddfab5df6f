"""How a point is measured, as the configuration's `measure` says."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """When a point has been measured often enough.

    Attributes:
        interval_percent: the half width of the interval that is aimed at, of the median.
    """

    min_repetitions: int
    max_repetitions: int
    interval_percent: float


@dataclass(frozen=True, kw_only=True)
class Measure(StopRule):
    """The stop rule, and how many steps a repetition has.

    Attributes:
        warmup_steps: steps before those that count, where links or workers are new.
        step_budget_s: the time that a repetition's steps may take, within min_steps and max_steps.
        recheck_s: how long a link may go unchecked.
        seed: of everything random.
    """

    warmup_steps: int
    min_steps: int
    max_steps: int
    step_budget_s: float
    recheck_s: float
    seed: int
