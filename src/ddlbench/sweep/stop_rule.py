"""When a point has been measured often enough, and which one needs another repetition most."""

from collections.abc import Iterable, Sequence

from ddlbench.measurements.record import Record, timed
from ddlbench.measurements.statistics import FEWEST, Total, is_of_a_fixed_number, pooled
from ddlbench.plan import Point
from ddlbench.protocol.measure import Measure
from ddlbench.sweep.link_monitor import link_of


def needs_repetition(point: Point, repetitions: Sequence[Total], measure: Measure) -> bool:
    """Say whether a point needs another repetition, if there is time.

    Args:
        point: of the plan.
        repetitions: those that it has.
        measure: how often points are measured.

    Returns:
        True if there are fewer than asked for, or their interval is too wide and more are allowed.
    """
    count = len(repetitions)
    if count < fewest(point, measure):
        return True
    is_fixed = is_of_a_fixed_number(point.as_dict())
    return not is_fixed and count < measure.max_repetitions and doubt(point, repetitions, measure) > 1


def fewest(point: Point, measure: Measure) -> int:
    """How many repetitions a point has at least.

    Args:
        point: of the plan.
        measure: how often points are measured.

    Returns:
        For a point that is trained to an accuracy, exactly as many as it has: so all of a figure have the same seeds.
        For one whose steps are alike, too.
    """
    if point.epochs:
        return measure.trainings
    return measure.replayed if is_of_a_fixed_number(point.as_dict()) else measure.min_repetitions


def doubt(point: Point, repetitions: Sequence[Total], measure: Measure) -> float:
    """Half the width of a point's interval, by the width that is asked for.

    Args:
        point: of the plan.
        repetitions: those that it has.
        measure: says which width is asked for.

    Returns:
        At most 1 if the interval is narrow enough; infinite if there are too few repetitions for an interval.
    """
    if len(repetitions) < FEWEST:
        return float("inf")
    link = link_of(point)
    percent = measure.lossy_interval_percent if link and link.is_lossy else measure.interval_percent
    return pooled(repetitions).half_width_percent / percent


def times_of(records: Iterable[Record]) -> list[Total]:
    """Take the times from records.

    Args:
        records: of one point.

    Returns:
        The steps and time of each repetition that has steps.
    """
    return [each for record in records if (each := timed(record))]
