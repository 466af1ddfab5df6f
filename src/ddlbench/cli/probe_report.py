"""What `ddlbench probe` shows and writes."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ddlbench.files import write_atomically
from ddlbench.probes.ping_pong import LARGEST_BYTES

_SHOWN_BYTES = (1, 64, 1024, 65536, 1 << 20, LARGEST_BYTES)

OfSize = Mapping[int, Sequence[float]]  # size in bytes -> the value of each repetition


def report(
    times_s: Mapping[str, OfSize],
    conditions: Mapping[str, Any],
    vanished: str | None,
    output: Path | None,
    *,
    streams_mbit: Mapping[str, OfSize] | None = None,
) -> int:
    """Print the values of a few sizes; write those of all sizes.

    Args:
        times_s: for each tool, one-way times in seconds. The file in NetPIPE's format holds the first tool's.
        conditions: the columns that all rows share.
        vanished: why the other end stopped to answer; None if it answered to the end.
        output: the files' path without its ending; None writes nothing.
        streams_mbit: for each tool, the throughput of streams in Mbit/s.

    Returns:
        The exit status: 1 if the other end vanished, so that the curve is not complete, else 0.
    """
    from ddlbench.measurements.point_to_point import as_csv, as_netpipe, latency_us, rows, stream_rows

    def labelled(tool: str) -> dict[str, Any]:
        return {"tool": tool, **conditions, "complete": vanished is None}

    of_tool = {tool: rows(by_size, labelled(tool)) for tool, by_size in times_s.items()}
    streams = {tool: stream_rows(by_size, labelled(tool)) for tool, by_size in (streams_mbit or {}).items()}
    for tool, found in of_tool.items():
        latency = latency_us(found)
        print(f"{tool}: latency {latency:.1f} us" if latency is not None else f"{tool}: nothing was measured")
        for row in found:
            if row["size_bytes"] in _SHOWN_BYTES:
                low, high = row["one_way_us_low"], row["one_way_us_high"]
                interval = f" [{low:.1f}, {high:.1f}]" if low and high else ""
                one_way = f"{row['one_way_us']:.1f}{interval} us"
                print(f"{row['size_bytes']:>9} B  {one_way}  {row['throughput_mbit']:.4g} Mbit/s")
    for tool, found in streams.items():
        for row in found[-1:]:
            print(f"{tool}: {row['throughput_mbit']:.4g} Mbit/s in a stream of {row['size_bytes']} B")
    if output is not None:
        csv, np_out = files_of(output)
        write_atomically(
            csv, as_csv(row for found in (*of_tool.values(), *streams.values()) for row in found)
        )
        write_atomically(np_out, as_netpipe(next(iter(of_tool.values()), [])))
    if vanished:
        print(f"ddlbench: {vanished}; the curve is not complete", file=sys.stderr)
    return 1 if vanished else 0


def files_of(output: Path) -> tuple[Path, Path]:
    """Name the files of `--output`.

    Args:
        output: their path without its ending.

    Returns:
        The CSV, and the file in NetPIPE's format.
    """
    return Path(f"{output}.csv"), Path(f"{output}.np.out")
