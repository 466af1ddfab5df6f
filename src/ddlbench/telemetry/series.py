"""A run's telemetry as Parquet: the counters of each host at regular moments, on one clock.

    results/telemetry/<study>/<run>/<start>/<part>.parquet

A part is complete or absent and is never changed. Together the parts cover the whole run, however it ended, and a
reader of Parquet takes the folder for one table. It has a row for each pass over the hosts, each host and each
interface. Counters only grow; rates are derived when they are needed. All times are those of the emulated hosts, that
is, wall time divided by the time dilation. `cpu_s` is what the host's own processors would have taken.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from ddlbench.errors import DdlbenchError

if TYPE_CHECKING:
    import pandas

METADATA = b"ddlbench"

# The columns of a host at a moment, then those of one interface (null if hosts share the network).
SCHEMA = pa.schema(
    [
        ("pass", pa.int32()),  # the hosts are read one after another; the same pass is the same moment
        ("time_s", pa.float64()),  # of the host's reading, since the session started
        ("host", pa.string()),
        ("role", pa.string()),
        ("point", pa.string()),  # the point whose steps are timed, null between repetitions
        ("repetition", pa.int32()),
        ("cpu_s", pa.float64()),  # of its processes, since they were started
        ("memory_bytes", pa.int64()),  # resident, of its processes
        ("gpu_percent", pa.list_(pa.float32())),  # of each GPU of the host, if the run computes on GPUs
        ("gpu_memory_bytes", pa.list_(pa.int64())),
        ("sent_packets", pa.int64()),  # of TCP, to other hosts, as on the wire
        ("sent_bytes", pa.int64()),  # of whole frames
        ("sent_payload_bytes", pa.int64()),  # data in TCP segments
        ("received_packets", pa.int64()),
        ("received_bytes", pa.int64()),
        ("received_payload_bytes", pa.int64()),
        ("tcp_retransmits", pa.int64()),
        ("interface", pa.string()),
        # as the interface counts: a train of packets as one, some drivers without Ethernet's headers
        ("rx_bytes", pa.int64()),
        ("rx_packets", pa.int64()),
        ("tx_bytes", pa.int64()),
        ("tx_packets", pa.int64()),
    ]
)
COUNTERS = ("cpu_s", "sent_packets", "sent_bytes", "received_packets", "received_bytes", "tcp_retransmits")

RATES = (
    "cpu_percent",  # of the host's vCPUs
    "memory_gb",
    "received_packets_per_s",
    "sent_packets_per_s",
    "received_mbit",
    "sent_mbit",
    "retransmits_per_s",
    "gpu_percent",  # mean of the GPUs
    "gpu_memory_gb",  # of all of them
)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class About:
    """What is the same in all samples of a session.

    Attributes:
        run: its id.
        started: the date and time when time_s was 0.
        hertz: samples in a second of the hosts.
        dilation: the time dilation.
        vcpus: of each host.
    """

    run: str
    started: str
    hertz: float
    dilation: float
    vcpus: int


def as_parquet(rows: Sequence[Row], about: Mapping[str, Any]) -> bytes:
    """Convert rows to the content of a part.

    Args:
        rows: of SCHEMA; missing columns are null.
        about: metadata of the file: the keys of `About`, and the costs of sampling.

    Returns:
        The bytes of a Parquet file.
    """
    # By way of JSON: to convert Python's objects, Arrow would import pandas, which takes a third of a second.
    table = pa_json.read_json(
        io.BytesIO("\n".join(map(json.dumps, rows)).encode()),
        read_options=pa_json.ReadOptions(use_threads=False),
        parse_options=pa_json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="error"),
    )
    described = table.replace_schema_metadata({METADATA: json.dumps(about).encode()})
    sink = io.BytesIO()
    pq.write_table(described, sink, compression="zstd")
    return sink.getvalue()


def about(file: Path) -> dict[str, Any]:
    """Read the metadata of a part.

    Args:
        file: the Parquet file.

    Returns:
        The keys of `About`, and the costs of sampling.
    """
    content: dict[str, Any] = json.loads(pq.read_schema(file).metadata[METADATA])
    return content


def read(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the rows of parts.

    Args:
        files: the Parquet files.

    Returns:
        A table with the columns of SCHEMA, in the order of time.

    Raises:
        DdlbenchError: a part cannot be read; names the file.
    """
    tables = []
    for file in files:
        try:
            tables.append(pq.read_table(file, schema=SCHEMA))
        except (OSError, pa.ArrowException) as error:
            raise DdlbenchError(f"{file}: this telemetry cannot be read ({error})") from None
    rows: pandas.DataFrame = pa.concat_tables(tables).to_pandas()
    return rows.sort_values(["pass", "host"], kind="stable", ignore_index=True)


def rates(samples: "pandas.DataFrame", metadata: Mapping[str, Any]) -> "pandas.DataFrame":
    """Compute what hosts did between one pass and the next.

    An interval of less than half the usual length is joined with the one before it.

    Args:
        samples: rows of one repetition's timed steps, as of `read`.
        metadata: as of `about`.

    Returns:
        A row for each host and interval: host, role, time_s (the middle of the interval), interval_s and the columns
        of RATES.
    """
    import pandas

    tables = []
    for (host, role), every in samples.groupby(["host", "role"], sort=False):
        each = every.drop_duplicates("pass")  # one row for all interfaces
        rows = each[_apart(list(each["time_s"]), 0.5 / metadata["hertz"])]
        grown = rows[["time_s", *COUNTERS]].astype(float).diff().iloc[1:]
        end = rows.iloc[1:]
        seconds = grown["time_s"]
        values = {
            "cpu_percent": 100 * grown["cpu_s"] / seconds / metadata["vcpus"],
            "memory_gb": end["memory_bytes"] / 2**30,
            "received_packets_per_s": grown["received_packets"] / seconds,
            "sent_packets_per_s": grown["sent_packets"] / seconds,
            "received_mbit": 8e-6 * grown["received_bytes"] / seconds,
            "sent_mbit": 8e-6 * grown["sent_bytes"] / seconds,
            "retransmits_per_s": grown["tcp_retransmits"] / seconds,
            "gpu_percent": [None if of is None else of.mean() for of in end["gpu_percent"]],
            "gpu_memory_gb": [None if of is None else of.sum() / 2**30 for of in end["gpu_memory_bytes"]],
        }
        places = {"host": host, "role": role, "time_s": end["time_s"] - seconds / 2, "interval_s": seconds}
        tables.append(pandas.DataFrame({**places, **values}))
    return pandas.concat(tables, ignore_index=True)


def _apart(times_s: Sequence[float], least_s: float) -> list[bool]:
    """Return which times to keep so that none is closer to the next than `least_s`; always the first and the last."""
    kept = [len(times_s) - 1]
    for index in range(len(times_s) - 2, 0, -1):
        if min(times_s[kept[-1]] - times_s[index], times_s[index] - times_s[0]) >= least_s:
            kept.append(index)
    return [index in (0, *kept) for index in range(len(times_s))]
