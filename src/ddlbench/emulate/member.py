"""A process of an emulated host that becomes the user's command; the fork server starts it on its host.

It has the host's network namespace, cores and scheduler slice already (`workers.common.fork_server.become`).
"""

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ddlbench.protocol.codec import read_text

_CANNOT_RUN, _NOT_FOUND = 126, 127


@dataclass(frozen=True)
class Command:
    """What a member becomes.

    Attributes:
        argv: of the command.
        stderr: the path of what takes its standard error.
        unset: environment variables that it does not get.
    """

    argv: Sequence[str]
    stderr: str
    unset: Sequence[str]


def main(control: str, _rank: int) -> NoReturn:
    """Become the command.

    Args:
        control: a `Command`, as JSON.
        _rank: of the member; its variables have it.
    """
    command = read_text(Command, control)
    os.dup2(os.open(command.stderr, os.O_WRONLY), sys.stderr.fileno())
    for name in command.unset:
        os.environ.pop(name, None)
    for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # A signal that we ignore, its command would ignore too.
        if signal.getsignal(each) in (signal.SIG_IGN, signal.default_int_handler):
            signal.signal(each, signal.SIG_DFL)
    try:
        os.execvp(command.argv[0], list(command.argv))
    except OSError as error:
        why = (
            f"{error.strerror} (it, or the interpreter in its first line)"
            if _is_missing(error)
            else error.strerror
        )
        print(f"{command.argv[0]}: {why}", file=sys.stderr, flush=True)
        os._exit(_NOT_FOUND if _is_missing(error) else _CANNOT_RUN)


def _is_missing(error: OSError) -> bool:
    return isinstance(error, FileNotFoundError)
