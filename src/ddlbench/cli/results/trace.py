"""`ddlbench trace`: show what a result was made from; of a figure its caption too."""

import argparse
import re
import sys
from pathlib import Path

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
    if text := caption_of(Path(arguments.file)):
        print(f"\n{text}")
    if not tree.damaged:
        return 0
    files = counted(tree.damaged, "file")
    print(f"{files} marked as not what was recorded; to mend:  ddlbench verify --repair", file=sys.stderr)
    return 1


def caption_of(file: Path) -> str:
    """Read the caption of a figure.

    Args:
        file: the figure's picture or data.

    Returns:
        Plain text, without the marks of reStructuredText; empty if the file is no figure.
    """
    caption = file.with_name(f"{file.name.split('.')[0]}.caption.rst")
    if not caption.is_file():
        return ""
    return re.sub(r"\\(.)", r"\1", caption.read_text(encoding="utf-8").replace("**", "")).strip()
