"""`ddlbench probe`: the one-way time and the throughput of messages of all sizes between two hosts.

ddlbench probe link gigabit              two emulated hosts on this machine and a link of config/links.yaml
ddlbench probe answer 192.0.2.7          on one machine: wait for a probe, on its address
ddlbench probe address 192.0.2.7         on another: probe it
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ddlbench.errors import ConfigError, nearest
from ddlbench.files import write_atomically
from ddlbench.network.pingpong import LARGEST_BYTES, answer, listening, probe, sizes

PORT = 5002  # NetPIPE's own
# A value is the mean over some milliseconds already.
MEASURE = {"min_repetitions": 5, "max_repetitions": 15, "interval_percent": 5}
_SHOWN_BYTES = (1, 64, 1024, 65536, 1 << 20, LARGEST_BYTES)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and what it can probe to a parser's sub-commands."""
    parser = commands.add_parser("probe", help="measure one-way time and throughput between two hosts")
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    link = kinds.add_parser(
        "link", help="an emulated link of config/links.yaml, between two hosts of this machine"
    )
    link.add_argument("name", metavar="NAME")
    link.add_argument(
        "--dilation", type=_at_least_one, default=1.0, metavar="K", help="time dilation; default: none"
    )
    link.add_argument("--netpipe", action="store_true", help="run NetPIPE's own NPtcp too (a minute or more)")
    link.set_defaults(command=_probe_link)
    address = kinds.add_parser("address", help="a host on which `ddlbench probe answer` waits")
    address.add_argument("host", metavar="HOST")
    address.add_argument("--fabric", default="ethernet", choices=("ethernet", "infiniband", "loopback"))
    address.set_defaults(command=_probe_address)
    waiting = kinds.add_parser("answer", help="wait for one probe")
    waiting.add_argument(
        "host", metavar="ADDRESS", nargs="?", default="127.0.0.1", help="default: %(default)s"
    )
    waiting.set_defaults(command=_answer)
    for each in (address, waiting):
        each.add_argument("--port", type=int, default=PORT, help="default: %(default)s")
    for each in (link, address):
        each.add_argument(
            "--largest-bytes", type=_size, default=LARGEST_BYTES, metavar="N", help="default: 8 MB"
        )
        each.add_argument("--output", type=Path, metavar="NAME", help="writes NAME.csv and NAME.np.out")
    for each in (link, address, waiting):
        each.add_argument("--timeout-s", type=float, default=60.0, metavar="S", help="default: %(default)g")


def _probe_link(arguments: argparse.Namespace) -> int:
    from ddlbench.network.link import Link
    from ddlbench.plan import load
    from ddlbench.runtime.probing import probe_link

    links = load(Path("config/config.yaml"), Path.cwd()).links
    if arguments.name not in links:
        raise ConfigError(f"config/links.yaml has no link {arguments.name!r}{nearest(arguments.name, links)}")
    named = links[arguments.name]
    link = Link(named.bandwidth_mbit, named.latency_ms, named.loss_percent)
    found = probe_link(
        link,
        dilation=arguments.dilation,
        measure=MEASURE,
        largest_bytes=arguments.largest_bytes,
        timeout_s=arguments.timeout_s,
        netpipe=arguments.netpipe,
    )
    conditions = {
        "transport": "tcp",
        "fabric": "emulated",
        "link": arguments.name,
        **link.as_dict(),
        "dilation": arguments.dilation,
    }
    return _report(found["times_s"], conditions, found["vanished"], arguments.output)


def _probe_address(arguments: argparse.Namespace) -> int:
    from ddlbench.measurements.statistics import needs_repetition

    times_s, vanished = probe(
        arguments.host,
        arguments.port,
        sizes(arguments.largest_bytes),
        needs_more=lambda values: needs_repetition(values, MEASURE),
        timeout_s=arguments.timeout_s,
    )
    conditions = {"transport": "tcp", "fabric": arguments.fabric, "dilation": 1.0}
    return _report({"ddlbench": times_s}, conditions, str(vanished) if vanished else None, arguments.output)


def _answer(arguments: argparse.Namespace) -> int:
    try:
        listener = listening(arguments.host, arguments.port)
    except OSError as error:
        raise ConfigError(f"{arguments.host} port {arguments.port}: {error.strerror or error}") from None
    with listener:
        host, port = listener.getsockname()[:2]
        print(f"waiting at {host} port {port}", file=sys.stderr, flush=True)
        answer(listener, arguments.timeout_s)
    return 0


def _report(
    times_s: Mapping[str, Mapping[int, Sequence[float]]],
    conditions: Mapping[str, Any],
    vanished: str | None,
    output: Path | None,
) -> int:
    """Print a few sizes, write all; 1 where the peer vanished and the curve is a part only."""
    from ddlbench.measurements.point_to_point import as_csv, as_netpipe, latency_us, rows

    of_tool = {
        tool: rows(by_size, {"tool": tool, **conditions, "complete": vanished is None})
        for tool, by_size in times_s.items()
    }
    for tool, found in of_tool.items():
        latency = latency_us(found)
        print(f"{tool}: latency {latency:.1f} us" if latency is not None else f"{tool}: nothing was measured")
        for row in found:
            if row["size_bytes"] in _SHOWN_BYTES:
                low, high = row["one_way_us_low"], row["one_way_us_high"]
                interval = f" [{low:.1f}, {high:.1f}]" if low and high else ""
                one_way = f"{row['one_way_us']:.1f}{interval} us"
                print(f"{row['size_bytes']:>9} B  {one_way}  {row['throughput_mbit']:.4g} Mbit/s")
    if output is not None:
        write_atomically(f"{output}.csv", as_csv(row for found in of_tool.values() for row in found))
        write_atomically(f"{output}.np.out", as_netpipe(of_tool["ddlbench"]))
    if vanished:
        print(f"ddlbench: {vanished}; the curve is not complete", file=sys.stderr)
    return 1 if vanished else 0


def _at_least_one(text: str) -> float:
    value = float(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a time dilation (expected a number >= 1)")
    return value


def _size(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"{text} is not a size (expected a whole number of bytes >= 1)")
    return int(text)
