"""The results of a point-to-point probe, as tidy rows and in NetPIPE's own format."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ddlbench.measurements.statistics import median_interval

COLUMNS = (
    *(
        "tool",
        "transport",
        "device",
        "fabric",
        "backend",
        "link",
        "bandwidth_mbit",
        "latency_ms",
        "loss_percent",
    ),
    *("measured_rate_mbit", "measured_rtt_ms", "measured_loss_percent", "dilation"),
    *("size_bytes", "one_way_us", "one_way_us_low", "one_way_us_high"),
    *("throughput_mbit", "throughput_mbit_low", "throughput_mbit_high", "repetitions", "complete", "host"),
)
SMALL_BYTES = 64  # the time of a message of at most this size is the latency

Row = dict[str, Any]


def rows(times_s: Mapping[int, Sequence[float]], conditions: Mapping[str, Any]) -> list[Row]:
    """Summarise one-way times as medians and their bounds, as of `median_interval`.

    Args:
        times_s: size in bytes -> one-way times in seconds, as without time dilation.
        conditions: the columns that all rows share.

    Returns:
        One row for each size that was measured, smallest first; keys are of COLUMNS. Throughput is in 10^6 bit/s.
    """
    found = []
    for size, values in sorted(times_s.items()):
        if not values:
            continue
        median, low, high = median_interval(values)
        slowest, fastest = (size * 8e-6 / each if each else None for each in (high, low))
        found.append(
            {
                **conditions,
                "size_bytes": size,
                "one_way_us": median * 1e6,
                "one_way_us_low": low and low * 1e6,
                "one_way_us_high": high and high * 1e6,
                "throughput_mbit": size * 8e-6 / median,
                "throughput_mbit_low": slowest,
                "throughput_mbit_high": fastest,
                "repetitions": len(values),
            }
        )
    return found


def stream_rows(throughput_mbit: Mapping[int, Sequence[float]], conditions: Mapping[str, Any]) -> list[Row]:
    """Summarise streams: messages that follow each other without waiting, which have no one-way time.

    Args:
        throughput_mbit: size in bytes -> throughputs in 10^6 bit/s.
        conditions: the columns that all rows share.

    Returns:
        One row for each size, smallest first; keys are of COLUMNS.
    """
    found = []
    for size, values in sorted(throughput_mbit.items()):
        median, low, high = median_interval(values)
        rate = {"throughput_mbit": median, "throughput_mbit_low": low, "throughput_mbit_high": high}
        found.append({**conditions, "size_bytes": size, **rate, "repetitions": len(values)})
    return found


def as_csv(rows: Iterable[Row]) -> str:
    """Write rows as CSV.

    Args:
        rows: as `rows` and `stream_rows` make them.

    Returns:
        The text, with the header COLUMNS. What was not measured is empty.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {key: f"{value:.10g}" if isinstance(value, float) else value for key, value in row.items()}
        )
    return text.getvalue()


def as_netpipe(rows: Iterable[Row]) -> str:
    """Write rows in NetPIPE's three columns: bytes, throughput in 2^20 bit/s, one-way time in seconds.

    Args:
        rows: as `rows` makes them; streams have no one-way time.

    Returns:
        The text, one line for each row.
    """
    return "".join(
        f"{row['size_bytes']:8d} {row['throughput_mbit'] * 1e6 / 2**20:f} {row['one_way_us'] / 1e6:0.9f}\n"
        for row in rows
    )


def from_netpipe(text: str) -> dict[int, list[float]]:
    """Read NetPIPE's three columns.

    Args:
        text: what NetPIPE wrote: bytes, throughput in 2^20 bit/s, one-way time in seconds.

    Returns:
        Size in bytes -> one-way times in seconds.

    Raises:
        ValueError: the text has another form.
    """
    times_s: dict[int, list[float]] = {}
    for line in text.splitlines():
        size, _, seconds = line.split()
        times_s.setdefault(int(size), []).append(float(seconds))
    return times_s


def latency_us(rows: Sequence[Row]) -> float | None:
    """Find the latency: the smallest one-way time of a message of at most SMALL_BYTES.

    Args:
        rows: as `rows` makes them.

    Returns:
        Microseconds; None if no such message was measured.
    """
    return min((row["one_way_us"] for row in rows if row["size_bytes"] <= SMALL_BYTES), default=None)
