"""`ddlbench probe`: the one-way time and the throughput of messages of all sizes between two hosts.

ddlbench probe link gigabit              two emulated hosts on this machine and a link of config/links.yaml
ddlbench probe answer 192.0.2.7          on one machine: wait for a probe, on its address
ddlbench probe address 192.0.2.7         on another: probe it

Between machines also by UCX or RDMA verbs, with their own programs: give both ends the same `--transport`.
"""

import argparse
import sys
from pathlib import Path

from ddlbench.cli.arguments import (
    DEFAULT_CONFIG,
    LARGEST_DILATION,
    host_name,
    must_be_writable,
    number,
    whole_number,
)
from ddlbench.cli.configuration import checkout
from ddlbench.cli.probe_report import files_of, report
from ddlbench.errors import ConfigError, nearest
from ddlbench.probes.ping_pong import LARGEST_BYTES, MOST_BYTES, answer, listening, probe, sizes
from ddlbench.protocol.measure import StopRule

LOOPBACK = "127.0.0.1"
PORT = 5002  # NetPIPE's own
# Few repetitions are enough: each value is already the mean over some milliseconds.
RULE = StopRule(min_repetitions=5, max_repetitions=12, interval_percent=5)
LONGEST_TIMEOUT_S = 86_400


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, and what it can probe, to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `probe` is added.
    """
    parser = commands.add_parser("probe", help="measure one-way time and throughput between two hosts")
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    link = kinds.add_parser(
        "link", help="an emulated link of config/links.yaml, between two hosts of this machine"
    )
    address = kinds.add_parser("address", help="a host on which `ddlbench probe answer` waits")
    waiting = kinds.add_parser("answer", help="wait for one probe")
    _add_link(link)
    _add_address(address)
    _add_answer(waiting)
    for each in (address, waiting):
        _add_transport(each)
    for each in (link, address):
        _add_output(each)
    for each in (link, address, waiting):
        each.add_argument(
            "--timeout-s",
            type=number(1e-3, LONGEST_TIMEOUT_S, "a time-out in seconds"),
            default=60.0,
            metavar="S",
            help="give up after the other end was silent for so long; default: %(default)g",
        )


def _add_link(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--dilation",
        type=number(1, LARGEST_DILATION, "a time dilation"),
        default=1.0,
        metavar="K",
        help="time dilation; default: none",
    )
    parser.add_argument(
        "--netpipe", action="store_true", help="run NetPIPE's own NPtcp too (a minute or more)"
    )
    parser.set_defaults(command=_probe_link)


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", metavar="HOST", type=host_name)
    parser.add_argument(
        "--fabric",
        choices=("ethernet", "infiniband", "loopback"),
        help="what connects the two, as a label in NAME.csv; it is not verified; default: none",
    )
    parser.add_argument(
        "--port", type=whole_number(1, 65535, "a port"), default=PORT, help="default: %(default)s"
    )
    parser.set_defaults(command=_probe_address)


def _add_answer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "host", metavar="ADDRESS", type=host_name, nargs="?", help=f"of tcp; default: {LOOPBACK}"
    )
    parser.add_argument(
        "--port",
        type=whole_number(0, 65535, "a port"),
        default=PORT,
        help="default: %(default)s; 0: one that is free, of tcp",
    )
    parser.set_defaults(command=_answer)


def _add_transport(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--transport",
        choices=("tcp", "ucx", "verbs"),
        default="tcp",
        help="how messages go; must be the same at the other end; default: %(default)s",
    )
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        help="of ucx or verbs, as `ddlbench interfaces` lists it; default: the only one",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--largest-bytes",
        type=whole_number(1, MOST_BYTES, "a size in bytes"),
        default=LARGEST_BYTES,
        metavar="N",
        help="default: 8 MB",
    )
    parser.add_argument("--output", type=Path, metavar="NAME", help="writes NAME.csv and NAME.np.out")


def _probe_link(arguments: argparse.Namespace) -> int:
    from ddlbench.network.fabrics import OF_EMULATED_HOSTS
    from ddlbench.network.link import Link
    from ddlbench.plan import load
    from ddlbench.probes.link_probe import probe_link
    from ddlbench.runs.machine_lock import alone_on_this_machine

    plan = load(DEFAULT_CONFIG, checkout())
    if arguments.name not in plan.links:
        message = f"config/links.yaml has no link {arguments.name!r}{nearest(arguments.name, plan.links)}"
        raise ConfigError(message)
    named = plan.links[arguments.name]
    link = Link(named.bandwidth_mbit, named.latency_ms, named.loss_percent)
    if arguments.output:
        must_be_writable(arguments.output, files_of(arguments.output))
    with alone_on_this_machine(plan.settings.other_measurements):
        found = probe_link(
            link,
            dilation=arguments.dilation,
            rule=RULE,
            largest_bytes=arguments.largest_bytes,
            timeout_s=arguments.timeout_s,
            netpipe=arguments.netpipe,
            tolerances=plan.settings.tolerances,
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
    return report(found.times_s, conditions, found.vanished, arguments.output)


def _probe_address(arguments: argparse.Namespace) -> int:
    from ddlbench.measurements.statistics import needs_repetition
    from ddlbench.probes.compiled_ping_pong import compiled

    _refuse_device_of_tcp(arguments)
    if arguments.output:
        must_be_writable(arguments.output, files_of(arguments.output))
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
    return report({"ddlbench": times_s}, conditions, str(vanished) if vanished else None, arguments.output)


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
    return report(times_s, conditions, vanished, arguments.output, streams_mbit=streams_mbit)


def _refuse_device_of_tcp(arguments: argparse.Namespace) -> None:
    if arguments.transport == "tcp" and arguments.device:
        raise ConfigError(
            f"--device {arguments.device}: tcp, the default transport, takes none. Name --transport ucx or verbs too"
        )


def _answer(arguments: argparse.Namespace) -> int:
    _refuse_device_of_tcp(arguments)
    if arguments.transport != "tcp":
        from ddlbench.probes import device_probe as device_probing

        of = f"the programs of {arguments.transport}"
        if arguments.host:
            raise ConfigError(f"{arguments.host}: {of} wait on all addresses here. Leave the address out")
        if arguments.port == 0:
            raise ConfigError(
                f"--port 0: {of} do not choose a port. Name one that is free, here and at the other end"
            )
        device = device_probing.device_of(arguments.transport, arguments.device)
        print(f"waiting at port {arguments.port}, {device}", file=sys.stderr, flush=True)
        device_probing.answer(arguments.transport, device, arguments.port, timeout_s=arguments.timeout_s)
        return 0
    from ddlbench.probes.compiled_ping_pong import compiled

    exchange, address = compiled(), arguments.host or LOOPBACK
    try:
        listener = listening(address, arguments.port)
    except OSError as error:
        raise ConfigError(f"{address} port {arguments.port}: {error.strerror or error}") from None
    with listener:
        host, port = listener.getsockname()[:2]
        print(f"waiting at {host} port {port}", file=sys.stderr, flush=True)
        answer(listener, arguments.timeout_s, exchange=exchange)
    return 0
