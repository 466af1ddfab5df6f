"""Processes that do not outlive whom they work for."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from time import monotonic, sleep
from typing import IO

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.005
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, however it ends."""
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def run_to_its_end(
    command: Sequence[str],
    *,
    stderr: IO[bytes] | int | None = None,
    variables: Mapping[str, str] = {},
    descriptors: Sequence[int] = (),
) -> int:
    """Run a command that dies with us, with these variables besides ours and these open files; its exit status."""
    process = subprocess.Popen(
        command,
        preexec_fn=die_with_parent,
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


def adopt_orphans(adopt: bool) -> None:
    """Become the parent of all descendants whose own parent ends from now on, or do not any more."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


class Orphan:
    """A process that we have adopted, with what `subprocess.Popen` offers for one that we have started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        if self._status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if ended else None
        return self._status

    def wait(self, timeout_s: float | None = None) -> int:
        """Its exit status, once it has ended; subprocess.TimeoutExpired where that takes longer than `timeout_s`."""
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
    """An exit status in words: `SIGKILL` or `status 3`."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"
