"""`ddlbench serve`: the recommender as a page and over HTTP."""

import argparse
from pathlib import Path

from ddlbench.cli.arguments import existing_file, host_name, number, whole_number

LOGS = Path("logs")


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `serve` is added.
    """
    parser = commands.add_parser(
        "serve", help="a page that says how many workers to take, and the same over HTTP (REST, JSON)"
    )
    parser.add_argument(
        "--host", type=host_name, default="127.0.0.1", help="default: %(default)s, this machine alone"
    )
    parser.add_argument(
        "--port", type=whole_number(0, 65535, "a port"), default=8000, help="default: %(default)s"
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=existing_file,
        help="the token that requests must have; else DDLBENCH_TOKEN; needed where other machines can ask",
    )
    parser.add_argument(
        "--workers",
        type=whole_number(1, 64, "a number of processes"),
        default=1,
        help="processes that answer",
    )
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="default: %(default)s")
    parser.add_argument(
        "--imported", type=Path, default=Path("imported"), help="of `ddlbench import`; default: %(default)s"
    )
    parser.add_argument(
        "--prices", type=Path, default=Path("config/prices.yaml"), help="default: %(default)s"
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--rate",
        type=number(0.1, 1e6, "a rate"),
        default=50.0,
        help="requests a second of one client, divided among the processes; default: %(default)g",
    )
    limits.add_argument(
        "--timeout",
        type=number(0.1, 3600, "a time in seconds"),
        default=30.0,
        metavar="S",
        help="of a request; default: %(default)g",
    )
    limits.add_argument(
        "--learning-time",
        type=number(1, 86400, "a time in seconds"),
        default=600.0,
        metavar="S",
        help="to learn from one table; default: %(default)g",
    )
    parser.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    from ddlbench.recommender.server import serve
    from ddlbench.recommender.serving import Serving

    return serve(
        Serving(
            host=arguments.host,
            workers=arguments.workers,
            tables=arguments.tables.absolute(),
            imported=arguments.imported.absolute(),
            prices=arguments.prices.absolute(),
            folder=LOGS.absolute(),
            rate=arguments.rate / arguments.workers,
            timeout_s=arguments.timeout,
            learning_s=arguments.learning_time,
            token_file=arguments.token_file and arguments.token_file.absolute(),
        ),
        arguments.port,
    )
