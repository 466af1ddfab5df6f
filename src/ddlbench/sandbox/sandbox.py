"""A private sandbox for a run: user, process, mount and network namespaces that disappear with their owner.

No root is needed. The kernel kills every process in the sandbox when its first process ends, and that process ends when
the process that started it ends. The namespaces and all that is in them are removed with the last process.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ddlbench.errors import DdlbenchError
from ddlbench.system.processes import run_to_its_end
from ddlbench.system.refusals import what_helps

_PROBE_TIMEOUT_S = 10.0
_BUSY_S = 60.0  # a busy machine may take its time
_OUTER_PROCESSES = "DDLBENCH_OUTER_PROCESSES"  # a descriptor of the /proc around the sandbox
_OUTER_USER = "DDLBENCH_OUTER_USER"


class SandboxSlow(DdlbenchError):
    """A sandbox was not made in time, so it is not known whether this machine allows one."""


def sandboxed(command: Sequence[str], *, as_root: bool) -> list[str]:
    """Build the command line that runs a command as the first process of a new sandbox.

    Args:
        command: its argv.
        as_root: whether the caller has the rights of root; if so, no user namespace is made.

    Returns:
        The argv of `unshare`.
    """
    user = [] if as_root else ["--user", "--map-root-user"]
    return [
        "unshare",
        *user,
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
        *command,
    ]


def sandbox_argv(command: Sequence[str], within: Sequence[str] = ()) -> list[str]:
    """Build the command line that runs a command as the first process of a new sandbox, in the way that this user may.

    Args:
        command: its argv.
        within: the beginning of an argv that enters a user namespace as its root; the sandbox is made in there.

    Returns:
        The argv.
    """
    return [*within, *sandboxed(command, as_root=bool(within) or _may_unshare_as_root())]


def run_sandboxed(
    module: str,
    arguments: Sequence[str],
    *,
    within: Sequence[str] = (),
    stderr: IO[bytes] | int | None = None,
) -> int:
    """Run a module of this package in a sandbox until it ends.

    Args:
        module: its name, for `python -m`.
        arguments: its command line.
        within: as of `sandbox_argv`.
        stderr: where its standard error goes; None: to that of this process.

    Returns:
        Its exit status.

    Raises:
        DdlbenchError: this machine allows no sandbox.
    """
    check_sandbox(within, patience_s=_BUSY_S)
    command = [sys.executable, "-m", module, *arguments]
    outer = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        variables = {_OUTER_PROCESSES: str(outer), _OUTER_USER: f"{os.getuid()}:{os.getgid()}"}
        argv = sandbox_argv(command, within)
        return run_to_its_end(argv, stderr=stderr, variables=variables, descriptors=[outer])
    finally:
        os.close(outer)


def outer_process() -> int:
    """Return the id that this process has outside of its sandbox."""
    # The link `self` in the /proc of the outer namespace holds the id there.
    return int(os.readlink(outer_processes() / "self"))


def outer_processes() -> Path:
    """Return the /proc around this sandbox, in which the id of `outer_process` is valid; without a sandbox /proc."""
    return (
        Path("/proc/self/fd", os.environ[_OUTER_PROCESSES])
        if _OUTER_PROCESSES in os.environ
        else Path("/proc")
    )


def outer_descriptors() -> tuple[int, ...]:
    """Return the descriptors that a child needs too if it calls `outer_process`."""
    return (int(os.environ[_OUTER_PROCESSES]),)


def outer_user() -> tuple[int, int]:
    """Return the ids, outside of the sandbox, of the user and group that it was made for."""
    user, group = map(int, os.environ[_OUTER_USER].split(":"))
    return user, group


def check_sandbox(within: Sequence[str] = (), *, patience_s: float = _PROBE_TIMEOUT_S) -> None:
    """Check that this machine allows a sandbox, by making one.

    Args:
        within: as of `sandbox_argv`.
        patience_s: how long that may take.

    Raises:
        SandboxSlow: not in time.
        DdlbenchError: it does not; with what to do about it.
    """
    try:
        argv = sandbox_argv(["true"], within)
        english = {**os.environ, "LC_ALL": "C"}  # `what_helps` reads what it says
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=patience_s, env=english)
    except FileNotFoundError as error:
        raise DdlbenchError(
            "unshare is not installed; it comes with the Debian package util-linux"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SandboxSlow(
            f"a private sandbox for emulated hosts was not made in {error.timeout:g} s. Is the machine busy? Try again"
        ) from error
    if answer.returncode != 0:
        message = answer.stderr.strip()
        raise DdlbenchError(
            f"this machine allows no private sandbox for emulated hosts ({message}). {what_helps(message)}"
        )


def _may_unshare_as_root() -> bool:
    """Return whether a sandbox needs no user namespace here: root needs none, except in some containers."""
    if os.geteuid() != 0:
        return False
    answer = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, timeout=_BUSY_S)
    return answer.returncode == 0
