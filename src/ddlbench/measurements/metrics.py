"""The columns of tables: values computed from the time of a step, and values that each repetition reports."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ddlbench.measurements.record import Record, steps, timed
from ddlbench.measurements.statistics import (
    FEWEST,
    FEWEST_OF_A_FIXED_NUMBER,
    FEWEST_OF_A_MEDIAN,
    Estimate,
    Total,
    is_of_a_fixed_number,
    median_interval,
    pooled,
)

Report = Mapping[str, Any]


class OfStepTime(NamedTuple):
    """A column that is computed from the time of a step, which all repetitions together give.

    Attributes:
        unit: of the column.
        derive: its value for a time of a step in ms, a global batch size in images and the `report` of the grid; None
            if the report does not define it.
    """

    unit: str
    derive: Callable[[float, int, Report], float | None]


class OfStep(NamedTuple):
    """A column that is a sum over steps, as times are: tables have what all repetitions together give for a step.

    Attributes:
        unit: of the column.
        read: takes its mean over the steps from a record; None if it has none.
    """

    unit: str
    read: Callable[[Record], float | None]


class OfRepetition(NamedTuple):
    """A column that each repetition has a value of; tables have the median.

    Attributes:
        unit: empty for a pure number.
        read: takes the value from a record; None if it has none.
    """

    unit: str
    read: Callable[[Record], float | None]


Metric = OfStepTime | OfStep | OfRepetition


def estimate(metric: Metric, records: Sequence[Record], report: Report) -> Estimate | None:
    """Estimate a column from the repetitions of a point.

    Args:
        metric: one of METRICS.
        records: of one point, all measured; of a table with a row for each epoch, their parts of one epoch.
        report: of the grid.

    Returns:
        The value with its bounds; None if no repetition has it, or the report does not define it.
    """
    if isinstance(metric, OfStepTime):
        return _of_step_time(metric, records, report)
    found = [(value, steps(record)) for record in records if (value := metric.read(record)) is not None]
    if not found:
        return None
    if isinstance(metric, OfRepetition):
        return median_interval([value for value, _ in found])
    return pooled([Total(value * count, count) for value, count in found], fewest_of_times(records))


def _of_step_time(metric: OfStepTime, records: Sequence[Record], report: Report) -> Estimate | None:
    times = [each for record in records if (each := timed(record))]
    if not times:
        return None
    batch_size = records[0]["point"]["batch_size"]
    value, *bounds = (
        None if time_ms is None else metric.derive(time_ms, batch_size, report)
        for time_ms in pooled(times, fewest_of_times(records))
    )
    if value is None:
        return None
    low, high = bounds
    return (
        Estimate(value, low, high) if low is None or high is None else Estimate(value, *sorted((low, high)))
    )


def _epoch_time_s(step_ms: float, batch_size: int, report: Report) -> float | None:
    """The time of as many steps, or as many images, as the report says an epoch has."""
    steps = report.get("epoch_steps")
    if steps is None and report.get("epoch_images") is not None:
        steps = report["epoch_images"] / batch_size
    return None if steps is None else step_ms * steps / 1000


def _training_time_s(step_ms: float, batch_size: int, report: Report) -> float | None:
    """The time of as many epochs as the report says a training has."""
    epoch_s = _epoch_time_s(step_ms, batch_size, report)
    return None if epoch_s is None or report.get("epochs") is None else epoch_s * report["epochs"]


def _reported(key: str) -> Callable[[Record], float | None]:
    return lambda record: record["metrics"].get(key)


def _link(key: str) -> Callable[[Record], float | None]:
    return lambda record: ((record.get("link") or {}).get("measured") or {}).get(key)


def _of_busiest_host(key: str) -> Callable[[Record], float | None]:
    """The largest value of all hosts: the parameter server's, or that of any host of a ring."""
    return lambda record: max(
        (host[key] for host in ((record.get("telemetry") or {}).get("hosts") or {}).values()), default=None
    )


METRICS: dict[str, Metric] = {
    "step_time_ms": OfStepTime("ms", lambda step_ms, batch_size, report: step_ms),
    "images_per_second": OfStepTime(
        "images/s", lambda step_ms, batch_size, report: 1000 * batch_size / step_ms
    ),
    "epoch_time_s": OfStepTime("s", _epoch_time_s),
    "training_time_s": OfStepTime("s", _training_time_s),
    "train_loss": OfRepetition("", _reported("train_loss")),
    "test_loss": OfRepetition("", _reported("test_loss")),
    "test_accuracy_percent": OfRepetition("%", _reported("test_accuracy_percent")),
    "forward_ms": OfRepetition("ms", _reported("forward_ms")),
    "backward_ms": OfRepetition("ms", _reported("backward_ms")),
    "communication_ms": OfRepetition("ms", _reported("communication_ms")),
    "startup_s": OfRepetition("s", _reported("startup_s")),
    "link_rate_mbit": OfRepetition("Mbit/s", _link("rate_mbit")),
    "link_rtt_ms": OfRepetition("ms", _link("rtt_ms")),
    "link_loss_percent": OfRepetition("%", _link("loss_percent")),
    "sent_bytes_per_step": OfStep("bytes", _of_busiest_host("sent_bytes_per_step")),
    "received_bytes_per_step": OfStep("bytes", _of_busiest_host("received_bytes_per_step")),
}


_OF_TIME = ("ms", "s", "images/s")  # units
LOSSES = ("train_loss", "test_loss")


def metric_of(column: str) -> Metric | None:
    """Find what a column shows.

    Args:
        column: of a table, or `<name>_ms`, which a figure makes of the table's `<name>_s`.

    Returns:
        The metric; None: it is none.
    """
    seconds = f"{column.removesuffix('ms')}s" if column.endswith("_ms") else column
    return METRICS.get(column) or METRICS.get(seconds)


def is_of_time(column: str) -> bool:
    """Say whether the interval of the step time says how certain a column is, and not that of something else.

    Args:
        column: of a table or a figure.

    Returns:
        False for losses, accuracies, bytes and links; True for times and what figures compute from them.
    """
    metric = metric_of(column)
    return metric is None or metric.unit in _OF_TIME


def fewest_of_times(records: Sequence[Record]) -> int:
    """Say how many repetitions of a point have an interval of what is a sum over steps.

    Args:
        records: of one point.

    Returns:
        Two, if their number was fixed before: no stop rule ended them when they were alike by chance. More where the
        link loses packets: few steps may have met no time-out.
    """
    is_lossy = (records[0].get("link") or {}).get("is_lossy")
    return FEWEST_OF_A_FIXED_NUMBER if is_of_a_fixed_number(records[0]["point"]) and not is_lossy else FEWEST


def bounds_of_times(records: Sequence[Record]) -> str | None:
    """Say what lies between the bounds of what is a sum over steps.

    Args:
        records: of one point.

    Returns:
        `interval` (of 95 %), `range`, or None: there are no bounds.
    """
    return _bounds(len(records), fewest_of_times(records)) if records else None


def diverged(records: Sequence[Record]) -> int:
    """Count the repetitions whose training diverged, so that it has no loss.

    Args:
        records: of one point, all measured.

    Returns:
        How many lack a loss that another one has, or that of a test of which they have the accuracy.
    """
    of_each = [record["metrics"] for record in records]
    known = [key for key in LOSSES if any(metrics.get(key) is not None for metrics in of_each)]
    if any(metrics.get("test_accuracy_percent") is not None for metrics in of_each):
        known.append("test_loss")
    return sum(any(metrics.get(key) is None for key in known) for metrics in of_each)


def bounds_of(column: str, row: Mapping[Any, Any]) -> str | None:
    """Say what lies between the bounds of a column.

    Args:
        column: of a table.
        row: of that table, of a point that was measured.

    Returns:
        `interval` (of 95 %), `range`, or None: there are no bounds.
    """
    if not isinstance(metric_of(column), OfRepetition):
        return row["bounds"]  # type: ignore[no-any-return]
    without = row.get("diverged", 0) if column in LOSSES else 0
    return bounds_of_median(row["repetitions"] - without)


def bounds_of_median(repetitions: int) -> str | None:
    """Say what lies between the bounds of a median.

    Args:
        repetitions: how many values it has.

    Returns:
        `interval` (of 95 %), `range`, or None: there are no bounds.
    """
    return _bounds(repetitions, FEWEST_OF_A_MEDIAN)


def _bounds(count: int, fewest: int) -> str | None:
    return None if count < 2 else "interval" if count >= fewest else "range"
