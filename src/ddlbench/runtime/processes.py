"""Processes that do not outlive whom they work for."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, however it ends."""
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def describe_exit(status: int) -> str:
    """An exit status in words: `SIGKILL` or `status 3`."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"
