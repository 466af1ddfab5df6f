"""The command `ddlbench`: its parser, its exit status, and how it shows errors."""

import argparse
import os
import sys
from collections.abc import Sequence

from ddlbench.cli import (
    check,
    doctor,
    emulate,
    housekeeping,
    import_table,
    interfaces,
    probe,
    profile,
    recommend,
    serve,
)
from ddlbench.cli.results import claims, sign, summary, trace, verify
from ddlbench.errors import DdlbenchError

BROKEN_PIPE = 141  # what the shell reports for a program that SIGPIPE ended
INTERRUPTED = 130  # and for one that SIGINT ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command.

    Args:
        argv: the arguments after the program's name; None takes those of this process.

    Returns:
        The exit status: 0, 1 (a mismatch or a DdlbenchError) or 2 (wrong usage or configuration).
    """
    try:
        arguments = parser().parse_args(argv)
        status: int = arguments.command(arguments)
        sys.stdout.flush()
        return status
    except SystemExit as end:  # argparse exits: 0 after --help, 2 after a usage error
        return int(end.code or 0)
    except DdlbenchError as error:
        print(f"ddlbench: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # as in `ddlbench trace FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line.

    Returns:
        A parser whose result has a `command`, which takes the parsed arguments and returns an exit status.
    """
    top = argparse.ArgumentParser(
        prog="ddlbench", description="Results of ddlbench: where they come from; and networks, probed."
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in (
        check,
        trace,
        verify,
        sign,
        summary,
        probe,
        profile,
        emulate,
        interfaces,
        doctor,
        housekeeping,
        import_table,
        recommend,
        serve,
        claims,
    ):
        command.add_to(commands)
    return top


if __name__ == "__main__":
    sys.exit(main())
