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
from ddlbench.errors import DdlbenchError, DiskFull, has_no_room

BROKEN_PIPE = 141  # what the shell reports for a program that SIGPIPE ended
INTERRUPTED = 130  # and for one that SIGINT ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command.

    Args:
        argv: the arguments after the program's name; None takes those of this process.

    Returns:
        The exit status: 0, 1 (a mismatch or a DdlbenchError), 2 (wrong usage or configuration) or 28 (a full disk).
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
        _discard_the_rest()
        return BROKEN_PIPE
    except OSError as error:
        if not has_no_room(error):
            raise
        where = error.filename or "standard output, or a file"
        print(f"ddlbench: {where}: the disk is full. Make room, and start again", file=sys.stderr)
        _discard_the_rest()
        return DiskFull.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


def _discard_the_rest() -> None:
    """Forget what is still to be printed, which Python would try once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
