"""The results of a probe of collectives as tidy rows: times, and the bandwidths that nccl-tests defines.

S bytes in t seconds have the algorithm bandwidth S / t. The bus bandwidth is the algorithm bandwidth times a factor. It
depends on the collective and the number of hosts, so that the result can be compared with the rate of a host's link
(NVIDIA, nccl-tests, doc/PERFORMANCE.md). S is the whole array. With all-gather each host begins with a part of it, with
reduce-scatter each ends with one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ddlbench.measurements.statistics import median_interval

ELEMENT_BYTES = 4  # float32
COLUMNS = (
    *("transport", "fabric", "backend", "link", "bandwidth_mbit", "latency_ms", "loss_percent"),
    *("measured_rate_mbit", "measured_rtt_ms", "measured_loss_percent", "dilation"),
    *("collective", "hosts", "size_bytes", "status", "reason", "time_us", "time_us_low", "time_us_high"),
    *("algorithm_bandwidth_mbit", "algorithm_bandwidth_mbit_low", "algorithm_bandwidth_mbit_high"),
    *("bus_bandwidth_mbit", "bus_bandwidth_mbit_low", "bus_bandwidth_mbit_high", "repetitions", "host"),
)
# What the busiest link carries in one direction, in units of S, with n hosts. Push and pull are not in nccl-tests: the
# parameter server's link receives, or sends, S for each of the n - 1 workers.
BUS_FACTORS: Mapping[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "push": lambda n: float(n - 1),
    "pull": lambda n: float(n - 1),
}
IN_PARTS = ("reduce_scatter", "all_gather")  # a part of the array for each host

Row = dict[str, Any]
Times = Mapping[tuple[str, int], Sequence[float]]  # (collective, size in bytes) -> seconds


def whole_bytes(collective: str, size_bytes: int, hosts: int) -> int:
    """Round a size down to one that is possible: whole elements, the same number on each host, at least one.

    Args:
        collective: a key of BUS_FACTORS.
        size_bytes: of the whole array.
        hosts: how many take part.

    Returns:
        Bytes of the whole array.
    """
    unit = ELEMENT_BYTES * (hosts if collective in IN_PARTS else 1)
    return max(1, size_bytes // unit) * unit


def algorithm_bandwidth_mbit(size_bytes: int, seconds: float) -> float:
    """Compute the algorithm bandwidth, S / t (NVIDIA, nccl-tests, doc/PERFORMANCE.md).

    Args:
        size_bytes: S, the whole array.
        seconds: t, the time of one collective.

    Returns:
        10^6 bit/s.
    """
    return size_bytes * 8e-6 / seconds


def bus_bandwidth_mbit(collective: str, hosts: int, size_bytes: int, seconds: float) -> float:
    """Compute the bus bandwidth: algorithm bandwidth times the collective's factor (nccl-tests, doc/PERFORMANCE.md).

    Args:
        collective: a key of BUS_FACTORS.
        hosts: how many take part; for push and pull the server counts too.
        size_bytes: of the whole array.
        seconds: the time of one collective.

    Returns:
        10^6 bit/s, to be compared with the rate of a host's link.
    """
    return algorithm_bandwidth_mbit(size_bytes, seconds) * BUS_FACTORS[collective](hosts)


def rows(
    times_s: Times, hosts: int, not_available: Mapping[str, str], conditions: Mapping[str, Any]
) -> list[Row]:
    """Summarise times as medians and their bounds, as of `median_interval`.

    Args:
        times_s: for each collective and size, the slowest rank's time in each repetition, as without time dilation.
        hosts: how many hosts took part.
        not_available: for each collective that was not measured, the reason.
        conditions: the columns that all rows share.

    Returns:
        One row for each collective and size, and one for each collective that was not measured; keys are of COLUMNS.
    """
    found = [
        {**conditions, **_measured(collective, hosts, size, values)}
        for (collective, size), values in times_s.items()
        if values
    ]
    missing = [
        {**conditions, "collective": name, "hosts": hosts, "status": "not_available", "reason": why}
        for name, why in not_available.items()
    ]
    return found + missing


def _measured(collective: str, hosts: int, size: int, values: Sequence[float]) -> Row:
    median, low, high = median_interval(values)
    row: Row = {"collective": collective, "hosts": hosts, "size_bytes": size, "status": "measured"}
    for end, seconds, inverse in (("", median, median), ("_low", low, high), ("_high", high, low)):
        row[f"time_us{end}"] = seconds and seconds * 1e6
        row[f"algorithm_bandwidth_mbit{end}"] = inverse and algorithm_bandwidth_mbit(size, inverse)
        row[f"bus_bandwidth_mbit{end}"] = inverse and bus_bandwidth_mbit(collective, hosts, size, inverse)
    return {**row, "repetitions": len(values)}


def as_csv(rows: Iterable[Row]) -> str:
    """Write rows as CSV.

    Args:
        rows: as `rows` makes them.

    Returns:
        The text, with the header COLUMNS. What was not measured is empty.
    """
    import pandas

    table = pandas.DataFrame(rows, columns=pandas.Index(COLUMNS))
    return table.to_csv(index=False, float_format="%.10g", lineterminator="\n")
