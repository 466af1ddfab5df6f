"""`ddlbench probe`: the one-way time and the throughput of messages of all sizes between two hosts.

ddlbench probe link gigabit              two emulated hosts on this machine and a link of config/links.yaml
ddlbench probe answer 192.0.2.7          on one machine: wait for a probe, on its address
ddlbench probe address 192.0.2.7         on another: probe it

Between machines also by UCX or RDMA verbs, with their own programs: `--transport`, said on both.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from ddlbench.errors import ConfigError, nearest
from ddlbench.files import write_atomically
from ddlbench.measurements.measure import StopRule
from ddlbench.probes.ping_pong import LARGEST_BYTES, MOST_BYTES, answer, listening, probe, sizes

PORT = 5002  # NetPIPE's own
# A value is the mean over some milliseconds already.
RULE = StopRule(min_repetitions=5, max_repetitions=12, interval_percent=5)
LARGEST_DILATION = 10_000
LONGEST_TIMEOUT_S = 86_400
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
        "--dilation",
        type=_number(1, LARGEST_DILATION, "a time dilation"),
        default=1.0,
        metavar="K",
        help="time dilation; default: none",
    )
    link.add_argument("--netpipe", action="store_true", help="run NetPIPE's own NPtcp too (a minute or more)")
    link.set_defaults(command=_probe_link)
    address = kinds.add_parser("address", help="a host on which `ddlbench probe answer` waits")
    address.add_argument("host", metavar="HOST", type=_host)
    address.add_argument(
        "--fabric",
        choices=("ethernet", "infiniband", "loopback"),
        help="what connects the two, as a label in NAME.csv; it is not verified; default: not said",
    )
    address.set_defaults(command=_probe_address)
    waiting = kinds.add_parser("answer", help="wait for one probe")
    waiting.add_argument(
        "host", metavar="ADDRESS", type=_host, nargs="?", default="127.0.0.1", help="default: %(default)s"
    )
    waiting.set_defaults(command=_answer)
    address.add_argument("--port", type=_whole(1, 65535, "a port"), default=PORT, help="default: %(default)s")
    waiting.add_argument(
        "--port",
        type=_whole(0, 65535, "a port"),
        default=PORT,
        help="default: %(default)s; 0: one that is free",
    )
    for each in (address, waiting):
        each.add_argument(
            "--transport",
            choices=("tcp", "ucx", "verbs"),
            default="tcp",
            help="how messages go; the other end must be told the same; default: %(default)s",
        )
        each.add_argument(
            "--device",
            metavar="DEVICE",
            help="of ucx or verbs, as `ddlbench interfaces` lists it; default: the only one",
        )
    for each in (link, address):
        each.add_argument(
            "--largest-bytes",
            type=_whole(1, MOST_BYTES, "a size in bytes"),
            default=LARGEST_BYTES,
            metavar="N",
            help="default: 8 MB",
        )
        each.add_argument("--output", type=Path, metavar="NAME", help="writes NAME.csv and NAME.np.out")
    for each in (link, address, waiting):
        each.add_argument(
            "--timeout-s",
            type=_number(1e-3, LONGEST_TIMEOUT_S, "a time-out in seconds"),
            default=60.0,
            metavar="S",
            help="silence of the other end after which it is given up; default: %(default)g",
        )


def _probe_link(arguments: argparse.Namespace) -> int:
    from ddlbench.network.fabrics import OF_EMULATED_HOSTS
    from ddlbench.network.link import Link
    from ddlbench.network.verify import Tolerances
    from ddlbench.plan import load
    from ddlbench.probes.link_probe import probe_link

    plan = load(Path("config/config.yaml"), Path.cwd())
    if arguments.name not in plan.links:
        message = f"config/links.yaml has no link {arguments.name!r}{nearest(arguments.name, plan.links)}"
        raise ConfigError(message)
    named = plan.links[arguments.name]
    link = Link(named.bandwidth_mbit, named.latency_ms, named.loss_percent)
    _must_be_writable(arguments.output)
    found = probe_link(
        link,
        dilation=arguments.dilation,
        rule=RULE,
        largest_bytes=arguments.largest_bytes,
        timeout_s=arguments.timeout_s,
        netpipe=arguments.netpipe,
        tolerances=Tolerances(**plan.settings["tolerances"]),
    )
    measured = found.measured.as_dict() if found.measured else {}
    print(f"link {arguments.name}: asked {link}")
    print(
        "measured: {rate_mbit:.4g} Mbit/s, round trip {rtt_ms:.3g} ms, {loss_percent:.2g} % loss".format(
            **measured
        )
    )
    conditions = {
        "transport": "tcp",
        "device": OF_EMULATED_HOSTS.name,
        "fabric": "emulated",
        "backend": found.backend,
        "link": arguments.name,
        **link.as_dict(),
        **{f"measured_{what}": value for what, value in measured.items()},
        "dilation": arguments.dilation,
    }
    return _report(found.times_s, conditions, found.vanished, arguments.output)


def _probe_address(arguments: argparse.Namespace) -> int:
    from ddlbench.measurements.statistics import needs_repetition
    from ddlbench.probes.compiled_ping_pong import compiled

    _must_be_writable(arguments.output)
    if arguments.transport != "tcp":
        return _probe_device(arguments)
    times_s, vanished = probe(
        arguments.host,
        arguments.port,
        sizes(arguments.largest_bytes),
        needs_more=lambda values: needs_repetition(values, RULE),
        timeout_s=arguments.timeout_s,
        exchange=compiled(),
    )
    conditions = {"transport": "tcp", "fabric": arguments.fabric, "dilation": 1.0}
    return _report({"ddlbench": times_s}, conditions, str(vanished) if vanished else None, arguments.output)


def _probe_device(arguments: argparse.Namespace) -> int:
    from ddlbench.probes.device_probe import device_of, probe

    device = device_of(arguments.transport, arguments.device)
    times_s, streams_mbit, vanished = probe(
        arguments.transport,
        device,
        arguments.host,
        arguments.port,
        largest_bytes=arguments.largest_bytes,
        timeout_s=arguments.timeout_s,
    )
    conditions = {
        "transport": arguments.transport,
        "device": device,
        "fabric": arguments.fabric,
        "dilation": 1.0,
    }
    return _report(times_s, conditions, vanished, arguments.output, streams_mbit=streams_mbit)


def _answer(arguments: argparse.Namespace) -> int:
    if arguments.transport != "tcp":
        from ddlbench.probes import device_probe as device_probing

        device = device_probing.device_of(arguments.transport, arguments.device)
        print(f"waiting at port {arguments.port}, {device}", file=sys.stderr, flush=True)
        device_probing.answer(arguments.transport, device, arguments.port, timeout_s=arguments.timeout_s)
        return 0
    from ddlbench.probes.compiled_ping_pong import compiled

    exchange = compiled()
    try:
        listener = listening(arguments.host, arguments.port)
    except OSError as error:
        raise ConfigError(f"{arguments.host} port {arguments.port}: {error.strerror or error}") from None
    with listener:
        host, port = listener.getsockname()[:2]
        print(f"waiting at {host} port {port}", file=sys.stderr, flush=True)
        answer(listener, arguments.timeout_s, exchange=exchange)
    return 0


def _report(
    times_s: Mapping[str, Mapping[int, Sequence[float]]],
    conditions: Mapping[str, Any],
    vanished: str | None,
    output: Path | None,
    *,
    streams_mbit: Mapping[str, Mapping[int, Sequence[float]]] | None = None,
) -> int:
    """Print a few sizes, write all; 1 where the peer vanished and the curve is a part only.

    Both curves are by tool and size; that of NetPIPE's format is the first tool's.
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
        csv, np_out = _files(output)
        write_atomically(
            csv, as_csv(row for found in (*of_tool.values(), *streams.values()) for row in found)
        )
        write_atomically(np_out, as_netpipe(next(iter(of_tool.values()), [])))
    if vanished:
        print(f"ddlbench: {vanished}; the curve is not complete", file=sys.stderr)
    return 1 if vanished else 0


def _must_be_writable(output: Path | None) -> None:
    """Raise ConfigError where the files of `--output` cannot be written, before anything is measured for them."""
    if output is None:
        return
    try:
        with TemporaryFile(dir=output.parent):
            pass
    except OSError as error:
        raise ConfigError(
            f"--output {output}: cannot write into {output.parent}/ ({error.strerror})"
        ) from None
    for file in _files(output):
        if not output.name or file.is_dir():
            raise ConfigError(f"--output {output}: {file} is not the name of a file")


def _files(output: Path) -> tuple[Path, Path]:
    return Path(f"{output}.csv"), Path(f"{output}.np.out")


def _number(least: float, most: float, what: str) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # as is nan
            message = f"{text} is not {what} (expected a number from {least:g} to {most:g})"
            raise argparse.ArgumentTypeError(message)
        return value

    return number


def _whole(least: int, most: int, what: str) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text) or not least <= int(text) <= most:
            message = f"{text} is not {what} (expected a whole number from {least} to {most})"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return whole


def _host(text: str) -> str:
    """A name or an address that a resolver can be asked for."""
    try:
        readable = text.isprintable() and " " not in text and text.encode("idna") != b""
    except UnicodeError:
        readable = False
    if not readable:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name or address of a host")
    return text
