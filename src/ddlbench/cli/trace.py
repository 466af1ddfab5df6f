"""`ddlbench trace`: show what a result was made from."""

import argparse

from ddlbench.cli.arguments import existing_file


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser.

    Args:
        commands: the parser's sub-commands.
    """
    parser = commands.add_parser(
        "trace", help="print the tree from a result down to data sets, code and hosts"
    )
    parser.add_argument(
        "file", metavar="FILE", type=existing_file, help="a figure, a table, a manifest or a measurement"
    )
    parser.set_defaults(command=_trace)


def _trace(arguments: argparse.Namespace) -> int:
    from ddlbench.measurements.trace_tree import trace

    print(trace(arguments.file))
    return 0
