"""`ddlbench verify`: check whether results still match all that they were made from."""

import argparse

from ddlbench.cli.arguments import counted, existing_file
from ddlbench.errors import ConfigError


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser.

    Args:
        commands: the parser's sub-commands.
    """
    parser = commands.add_parser(
        "verify", help="hash all that results were made from again; name what differs"
    )
    parser.add_argument(
        "files", metavar="FILE", type=existing_file, nargs="*", help="default: every drawn figure"
    )
    parser.set_defaults(command=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    """Return 0 if everything matches, else 1."""
    from ddlbench.measurements.mismatches import check
    from ddlbench.measurements.provenance import repository_root

    figures = repository_root("results") / "results" / "figures"
    files = arguments.files or sorted(figures.glob("*.svg"))
    if not files:
        raise ConfigError(f"{figures} holds no figure to verify; draw one first, or name a file")
    hashed, mismatches = check(files)
    for mismatch in mismatches:
        print(mismatch)
    wrong = f"{len(mismatches)} {'does' if len(mismatches) == 1 else 'do'} not match"
    outcome = wrong if mismatches else "all match"
    print(f"{counted(len(files), 'result')} verified: {counted(hashed, 'file')} hashed, {outcome}")
    return 1 if mismatches else 0
