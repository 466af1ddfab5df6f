"""`ddlbench trace`: show what a result was made from."""

import argparse
import sys

from ddlbench.cli.arguments import counted, existing_file


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `trace` is added.
    """
    parser = commands.add_parser(
        "trace", help="print the tree from a result down to data sets, code and hosts"
    )
    parser.add_argument(
        "file", metavar="FILE", type=existing_file, help="a figure, a table, a manifest or a measurement"
    )
    parser.set_defaults(command=_trace)


def _trace(arguments: argparse.Namespace) -> int:
    """Return 0 if every file of the tree is as it was, else 1."""
    from ddlbench.measurements.trace_tree import trace

    tree = trace(arguments.file)
    print(tree.text)
    if not tree.damaged:
        return 0
    files = counted(tree.damaged, "file")
    print(f"{files} marked as not what was recorded; to mend:  ddlbench verify --repair", file=sys.stderr)
    return 1
