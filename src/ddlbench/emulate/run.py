"""Run an emulation in a sandbox of its own, and pass the signals that come on to its commands."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from ddlbench.emulate.emulation import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    OF_SIGNALS,
    OWN_FAILURE,
    Emulated,
    Emulation,
    Task,
)
from ddlbench.errors import DdlbenchError
from ddlbench.sandbox.job import answer_of

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EmulationFailed(DdlbenchError):
    """It is not the command that has failed."""

    exit_code = OWN_FAILURE


class EmulationInterrupted(DdlbenchError):
    """A signal ended it before there was anything to tell."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = OF_SIGNALS + number


class CommandNotFound(DdlbenchError):
    """There is no such command."""

    exit_code = NOT_FOUND


class CommandNotExecutable(DdlbenchError):
    """The file is there and cannot be run."""

    exit_code = NOT_EXECUTABLE


def check_command(name: str) -> None:
    """Check that a command can be run, before anything starts.

    Args:
        name: the first word of the command.

    Raises:
        CommandNotFound: there is none.
        CommandNotExecutable: the file is no program.
    """
    if shutil.which(name):
        return
    if os.sep in name and Path(name).is_file():
        raise CommandNotExecutable(
            f"{name} is not executable. For a script name its interpreter:  -- python {name}"
        )
    where = "there is no such file" if os.sep in name else "it is in no folder of PATH"
    raise CommandNotFound(f"the command {name!r} was not found ({where})")


def emulate(emulation: Emulation) -> Emulated:
    """Run an emulation until its commands have ended. Nothing of it is left, however this ends.

    Args:
        emulation: the hosts, their links and the command.

    Returns:
        What came of it.

    Raises:
        EmulationFailed: the hosts or the links could not be made.
        EmulationInterrupted: a signal came before the command was started.
        KeyboardInterrupt: a third signal came; the second one kills the commands.
    """
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        fifo = Path(folder) / "signals"
        os.mkfifo(fifo, 0o600)
        with _passing_on(fifo) as came:
            try:
                return answer_of(
                    "ddlbench.emulate.supervisor", Task(emulation, str(fifo)), Emulated, what="the emulation"
                )
            except DdlbenchError as error:
                if came:
                    raise EmulationInterrupted(came[0]) from error
                raise EmulationFailed(str(error)) from error


@contextmanager
def _passing_on(fifo: Path) -> Iterator[list[int]]:
    """Write the numbers of signals that come into a file, and into the list; the third one is a KeyboardInterrupt."""
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    came: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP in came:  # a shell tells its jobs, and the kernel them again
            return
        came.append(number)
        if len(came) > 2:
            raise KeyboardInterrupt
        os.write(descriptor, bytes([number]))

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(descriptor)
