"""`ddlbench emulate`: any command, once in each of some emulated hosts.

ddlbench emulate --hosts 4 --link home-broadband -- python train.py
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ddlbench.cli.arguments import (
    LARGEST_DILATION,
    add_other_measurements,
    must_be_writable,
    number,
    whole_number,
)
from ddlbench.errors import ConfigError, DdlbenchError, DiskFull

if TYPE_CHECKING:
    from ddlbench.emulate.emulation import Emulation

MOST_HOSTS = 64
MOST_CORES = 1024
MB = 10**6
SAFE_PATH = "PYTHONSAFEPATH"  # so that a user's `select.py` is not imported in place of Python's


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `emulate` is added.
    """
    parser = commands.add_parser(
        "emulate",
        help="run a command once in each of some emulated hosts",
        description="Run a command once in each of some emulated hosts of this machine. docs/emulate.md says more.",
        usage="ddlbench emulate [--hosts N] (--link NAME | --sites NAME | --bandwidth-mbit N ...) [...] -- COMMAND ...",
    )
    parser.add_argument(
        "--hosts",
        type=whole_number(2, MOST_HOSTS, "a number of hosts"),
        default=2,
        metavar="N",
        help="default: 2",
    )
    parser.add_argument("--link", metavar="NAME", help="of each host, from config/links.yaml")
    parser.add_argument("--sites", metavar="NAME", help="that the hosts are on, from config/sites.yaml")
    parser.add_argument(
        "--bandwidth-mbit",
        type=number(1e-3, 1e6, "a bandwidth in Mbit/s"),
        metavar="N",
        help="a link by numbers",
    )
    parser.add_argument(
        "--latency-ms", type=number(0, 1e5, "a latency in ms"), metavar="N", help="one way; default: 0"
    )
    parser.add_argument(
        "--loss-percent", type=number(0, 90, "a loss in %"), metavar="N", help="one way; default: 0"
    )
    parser.add_argument(
        "--cores",
        type=whole_number(1, MOST_CORES, "a number of cores"),
        default=1,
        metavar="N",
        help="of each host, in its own time; default: 1",
    )
    parser.add_argument(
        "--dilation",
        type=number(1, LARGEST_DILATION, "a time dilation"),
        metavar="K",
        help="default: 1, or as much as the hosts need to have their cores",
    )
    parser.add_argument(
        "--grace-s",
        type=number(0, 86_400, "a time in seconds"),
        default=10.0,
        metavar="S",
        help="how long the other hosts may go on when one has failed; default: %(default)g",
    )
    parser.add_argument(
        "--shown-mb",
        type=whole_number(0, 10**6, "a number of MB"),
        default=100,
        metavar="N",
        help="of a host's output at most; default: %(default)s",
    )
    parser.add_argument(
        "--runtime",
        nargs=2,
        metavar=("docker", "IMAGE"),
        help="run the command in a container of Docker's on each host; the working directory is mounted",
    )
    add_other_measurements(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="NAME",
        help="writes NAME.json, NAME.csv (what each host does over time) and NAME.json.prov.json",
    )
    parser.add_argument("words", nargs="+", metavar="COMMAND", help="with its arguments, after --")
    parser.set_defaults(command=_emulate)


def _emulate(arguments: argparse.Namespace) -> int:
    from ddlbench.emulate import result
    from ddlbench.emulate.output import tell
    from ddlbench.emulate.run import check_command, emulate
    from ddlbench.emulate.summary import announcement, summary
    from ddlbench.runs.machine_lock import alone_on_this_machine

    if not arguments.runtime:
        check_command(arguments.words[0])
    elif arguments.runtime[0] != "docker":
        raise ConfigError(f"--runtime {arguments.runtime[0]}: expected  docker IMAGE")
    if arguments.output:
        files = (result.result_file(arguments.output), result.series_file(arguments.output))
        must_be_writable(arguments.output, files)
    emulation = _asked(arguments)
    with ExitStack() as stack:
        with _our_failures():
            stack.enter_context(alone_on_this_machine(arguments.other_measurements))
        print(f"ddlbench: {announcement(emulation)}", file=sys.stderr, flush=True)
        os.environ.setdefault(SAFE_PATH, "1")
        started = datetime.now(UTC)
        found = emulate(emulation)
    with suppress(OSError, DiskFull):  # files and exit code still count
        tell(f"\n{summary(emulation, found)}")
    if arguments.output:
        with _our_failures():
            result.write(arguments.output, emulation, found, started)
    return found.exit_code


@contextmanager
def _our_failures() -> Iterator[None]:
    """Tell failures by an exit code that is not that of a command."""
    from ddlbench.emulate.run import EmulationFailed

    try:
        yield
    except (DdlbenchError, OSError) as error:
        raise EmulationFailed(str(error)) from error


def _asked(arguments: argparse.Namespace) -> "Emulation":
    import psutil

    from ddlbench.emulate.contained import image_of
    from ddlbench.emulate.emulation import Emulation
    from ddlbench.emulate.named_links import catalogue, named_link, named_sites
    from ddlbench.emulate.result import series_file
    from ddlbench.emulate.variables import unwanted
    from ddlbench.network.hosts import GIB, place
    from ddlbench.network.link import Link

    by_numbers = [arguments.bandwidth_mbit, arguments.latency_ms, arguments.loss_percent]
    given = [arguments.link, arguments.sites, None if by_numbers == [None] * 3 else by_numbers]
    if sum(each is not None for each in given) != 1 or (given[2] and arguments.bandwidth_mbit is None):
        raise ConfigError(
            "expected one of --link NAME, --sites NAME, and --bandwidth-mbit N with --latency-ms N and --loss-percent N"
        )
    link, sites, root = None, None, catalogue()
    if arguments.sites:
        sites = named_sites(arguments.sites, arguments.hosts, root).as_dict()
    elif arguments.link:
        link = named_link(arguments.link, root)
    else:
        link = Link(arguments.bandwidth_mbit, arguments.latency_ms or 0.0, arguments.loss_percent or 0.0)
    memory = psutil.virtual_memory().available
    placement = place(
        arguments.hosts,
        vcpus=arguments.cores,
        memory_gb=memory / GIB / arguments.hosts,
        host_count=arguments.hosts,
        cores=sorted(os.sched_getaffinity(0)),
        available_memory_bytes=memory,
        dilation="auto" if arguments.dilation is None else arguments.dilation,
    )
    ours = [SAFE_PATH] if SAFE_PATH not in os.environ else []
    return Emulation(
        command=arguments.words,
        hosts=placement.hosts,
        dilation=placement.dilation,
        link=link,
        sites=sites,
        grace_s=arguments.grace_s,
        shown_bytes=arguments.shown_mb * MB,
        unset=[*ours, *unwanted(os.environ)],
        image=image_of(arguments.runtime[1]) if arguments.runtime else None,
        series=str(series_file(arguments.output).absolute()) if arguments.output else "",
    )
