"""A private sandbox for a run: user, process, mount and network namespaces that vanish, whole, with their owner.

No root is needed. The kernel ends every process in the sandbox when its first one ends, and that one ends with us; the
namespaces and all that is in them go with the last process.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import IO

from ddlbench.errors import DdlbenchError
from ddlbench.system.processes import run_to_its_end

_PROBE_TIMEOUT_S = 10.0
_OUTER_PROCESSES = "DDLBENCH_OUTER_PROCESSES"  # a descriptor of the /proc around the sandbox
_OUTER_USER = "DDLBENCH_OUTER_USER"


def sandboxed(command: Sequence[str], *, as_root: bool) -> list[str]:
    """The argv that runs `command` as the first process of a new sandbox; `as_root` needs no user namespace."""
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
    """The argv that runs `command` as the first process of a new sandbox, as this user may make one.

    within: words before a command with which it starts as root of some user namespace, where the sandbox is then made.
    """
    return [*within, *sandboxed(command, as_root=bool(within) or _may_unshare_as_root())]


def run_sandboxed(
    module: str,
    arguments: Sequence[str],
    *,
    within: Sequence[str] = (),
    stderr: IO[bytes] | int | None = None,
) -> int:
    """Run a module of ours in a sandbox until it ends; returns its exit status.

    within: as of `sandbox_argv`. Raises DdlbenchError where this machine allows no sandbox.
    """
    check_sandbox(within)
    command = [sys.executable, "-m", module, *arguments]
    outer = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        variables = {_OUTER_PROCESSES: str(outer), _OUTER_USER: f"{os.getuid()}:{os.getgid()}"}
        argv = sandbox_argv(command, within)
        return run_to_its_end(argv, stderr=stderr, variables=variables, descriptors=[outer])
    finally:
        os.close(outer)


def outer_process() -> int:
    """The id that this process has outside of its sandbox: the outer /proc says what `self` is there."""
    return int(os.readlink("self", dir_fd=int(os.environ[_OUTER_PROCESSES])))


def outer_user() -> tuple[int, int]:
    """The user and group, as numbered outside of the sandbox, for whom it is."""
    user, group = map(int, os.environ[_OUTER_USER].split(":"))
    return user, group


def check_sandbox(within: Sequence[str] = (), *, patience_s: float = _PROBE_TIMEOUT_S) -> None:
    """Raise DdlbenchError, with what to do, where this machine allows no sandbox; within: as of `sandbox_argv`."""
    argv = sandbox_argv(["true"], within)
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=patience_s)
    except FileNotFoundError as error:
        raise DdlbenchError(
            "unshare is not installed; it comes with the Debian package util-linux"
        ) from error
    if answer.returncode != 0:
        raise DdlbenchError(
            f"this machine allows no private sandbox for emulated hosts ({answer.stderr.strip()}). As root:\n"
            "  sysctl -w kernel.unprivileged_userns_clone=1                  (Debian)\n"
            "  sysctl -w kernel.apparmor_restrict_unprivileged_userns=0      (Ubuntu)\n"
            "  or start the container that this is with\n"
            "  --security-opt seccomp=unconfined --cap-add SYS_ADMIN --cap-add NET_ADMIN"
        )


def _may_unshare_as_root() -> bool:
    """Root makes the sandbox without a user namespace, unless it is a container's root that may not."""
    if os.geteuid() != 0:
        return False
    answer = subprocess.run(
        ["unshare", "--net", "--mount", "true"], capture_output=True, timeout=_PROBE_TIMEOUT_S
    )
    return answer.returncode == 0
