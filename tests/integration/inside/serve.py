"""python -m inside.serve READY: run functions of `inside` one after another, each in a sandbox of its own.

READY is the file that says when it listens. A kernel that boots once for many tests has this as its only process
(`tests.support.uml`). Each line of its input is a job: {"folder": where it works, "arguments": those of `inside`,
"status": the file for its exit status}. A job is a fork, as an import takes seconds below User-Mode Linux.
"""

import ctypes
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from inside import checks, links, sites, star  # noqa: F401  those that tests below another kernel need
from inside.__main__ import run

_NEW_MOUNTS, _NEW_PROCESSES, _NEW_NETWORK = 0x00020000, 0x20000000, 0x40000000
_MOUNTS = (
    ["mount", "--make-rprivate", "/"],
    ["mount", "-t", "proc", "proc", "/proc"],
    ["mount", "-t", "tmpfs", "tmpfs", "/run"],
)
_libc = ctypes.CDLL(None, use_errno=True)


def serve(ready: str) -> None:
    Path(ready).touch()  # what comes earlier is not heard
    for line in sys.stdin:
        job = json.loads(line)
        os.chdir(job["folder"])
        status = _forked(lambda job=job: _sandboxed(job["arguments"]))
        written = Path(f"{job['status']}.part")
        written.write_text(str(status))
        written.rename(job["status"])


def _sandboxed(arguments: list[str]) -> int:
    """Run a function in new namespaces, which end with it."""
    if _libc.unshare(_NEW_MOUNTS | _NEW_PROCESSES | _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "unshare")
    return _forked(lambda: _first_process(arguments))


def _first_process(arguments: list[str]) -> int:
    for command in _MOUNTS:
        subprocess.run(command, check=True)
    run(*arguments)
    return 0


def _forked(work: Callable[[], int]) -> int:
    """The exit status of a process that does the work."""
    if process := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    status = 1
    try:
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])
