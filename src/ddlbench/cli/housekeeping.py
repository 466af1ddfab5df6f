"""`ddlbench housekeeping`: remove what killed runs have left behind. `make run` calls it first."""

import argparse
from pathlib import Path


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser.

    Args:
        commands: the parser's sub-commands.
    """
    parser = commands.add_parser(
        "housekeeping",
        help="remove what killed runs have left behind (locks, containers); living runs lose nothing",
    )
    parser.set_defaults(command=_housekeeping)


def _housekeeping(arguments: argparse.Namespace) -> int:
    from ddlbench.sweep.housekeeping import clean_up

    for words in clean_up(Path.cwd()):
        print(f"removed: {words}")
    return 0
