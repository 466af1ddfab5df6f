"""Processes that do not outlive the process that started them."""

import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from time import monotonic, sleep
from typing import IO

from ddlbench.system.calls import set_child_subreaper, set_parent_death_signal

_POLL_S = 0.005
_ENOUGH_DESCRIPTORS = 65_536


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel kill this process when its parent ends, for whatever reason.

    Args:
        number: of the signal by which it does.
    """
    parent = os.getppid()
    set_parent_death_signal(number)
    if os.getppid() != parent:  # it ended before the call above, so that no signal will come
        os.kill(os.getpid(), signal.SIGKILL)


def allow_descriptors() -> None:
    """Let this process and those that it starts open many files and sockets, as far as it may: often 1024 are usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = _ENOUGH_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_DESCRIPTORS)
    if resource.RLIM_INFINITY != soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


def run_to_its_end(
    command: Sequence[str],
    *,
    stderr: IO[bytes] | int | None = None,
    variables: Mapping[str, str] = {},
    descriptors: Sequence[int] = (),
) -> int:
    """Run a command, which is killed when this process ends, and wait for it.

    Args:
        command: its argv.
        stderr: where its standard error goes; None: to that of this process.
        variables: environment variables to add to those of this process.
        descriptors: file descriptors that stay open in it.

    Returns:
        Its exit status; negative: the signal that ended it.
    """
    process = subprocess.Popen(
        command,
        preexec_fn=_left_to_its_parent,
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=descriptors,
        env={**os.environ, **variables},
    )
    try:
        return process.wait()
    finally:
        process.kill()
        process.wait()


def _left_to_its_parent() -> None:
    """Let a terminal that hangs up, which tells all processes on it, end this process only by way of its parent.

    `unshare` holds Ctrl-C and SIGTERM back itself, so that what it has started can end in order.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    die_with_parent()


def adopt_orphans(adopt: bool) -> None:
    """Set whether this process becomes the parent of all descendants whose own parent ends later.

    Args:
        adopt: whether it does.
    """
    set_child_subreaper(adopt)


class Orphan:
    """A process that this one has adopted, with methods like those of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs."""
        if self._status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if ended else None
        return self._status

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end.

        Args:
            timeout_s: how long to wait; None: as long as it takes.

        Returns:
            Its exit status; negative: the signal that ended it.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout_s`.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while (status := self.poll()) is None:
            if deadline is not None and monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout_s or 0.0)
            sleep(_POLL_S)
        return status

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def describe_exit(status: int) -> str:
    """Name an exit status for a person.

    Args:
        status: the exit status; negative: the signal that ended the process.

    Returns:
        A text like `SIGKILL` (for -9), `signal 40` (for a real-time signal, which has no name) or `status 3`.
    """
    if status >= 0:
        return f"status {status}"
    named = -status in signal.Signals.__members__.values()
    return signal.Signals(-status).name if named else f"signal {-status}"
