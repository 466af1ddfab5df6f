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
from ddlbench.runtime.processes import die_with_parent

_PROBE_TIMEOUT_S = 10


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


def run_sandboxed(module: str, arguments: Sequence[str], *, stderr: IO[bytes] | int | None = None) -> int:
    """Run a module of ours in a sandbox until it ends; returns its exit status.

    Raises DdlbenchError where this machine allows no sandbox.
    """
    check_sandbox()
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(
        sandboxed(command, as_root=_may_unshare_as_root()),
        preexec_fn=die_with_parent,
        stdin=subprocess.DEVNULL,
        stderr=stderr,
    )
    try:
        return process.wait()
    finally:
        process.kill()
        process.wait()


def check_sandbox() -> None:
    """Raise DdlbenchError, with what to do, where this machine allows no sandbox."""
    argv = sandboxed(["true"], as_root=_may_unshare_as_root())
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S)
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
