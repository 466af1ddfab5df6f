"""Why a machine allows no sandbox or no emulated hosts, and what helps there. The kernel says no more than an errno."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

_LIMITS = tuple(f"user.max_{kind}_namespaces" for kind in ("user", "net", "mnt", "pid"))
_DEBIANS = "kernel.unprivileged_userns_clone"
_UBUNTUS = "kernel.apparmor_restrict_unprivileged_userns"
_PLENTY = 10_000  # namespaces; what kernels allow by default is more than that on most machines
_SIGNS_OF_CONTAINERS = ("/.dockerenv", "/run/.containerenv")
_AS_ROOT = "As root, which lasts until the next start of the machine:"


def what_helps(message: str) -> str:
    """Say what helps on this machine.

    Args:
        message: as of `advice`.

    Returns:
        As of `advice`.
    """
    in_container = any(Path(sign).exists() for sign in _SIGNS_OF_CONTAINERS)
    return advice(message, kernel_settings(), in_container=in_container)


def advice(message: str, settings: Mapping[str, str], *, in_container: bool) -> str:
    """Say what helps where a namespace was refused.

    Args:
        message: which has the text of an errno, for instance what `unshare` has said.
        settings: the kernel's, as of `kernel_settings`.
        in_container: whether this machine is a container of Docker's or Podman's.

    Returns:
        One or more lines for a person.
    """
    if _has(message, errno.ENOSPC):
        full = [name for name in _LIMITS if int(settings.get(name, _PLENTY)) == 0] or [
            name for name in _LIMITS if int(settings.get(name, _PLENTY)) < _PLENTY
        ]
        commands = [f"sysctl -w {name}={_PLENTY}" for name in full or _LIMITS[:1]]
        return _lines("The kernel's limit of namespaces is reached. " + _AS_ROOT, *commands)
    if _has(message, errno.EMFILE, errno.ENFILE):
        return "No more files may be open here, and an emulated host needs five. See  ulimit -n"
    if _has(message, errno.ENOMEM):
        return "The kernel has no memory left. End what else needs much, and start again."
    if _has(message, errno.EAGAIN):
        return "No more processes may be started here. See  ulimit -u  and the limit of a container (--pids-limit)."
    if _has(message, errno.ENOSYS, errno.EINVAL):
        return "This kernel has no user namespaces (CONFIG_USER_NS). Start as root, or on another kernel."
    if settings.get(_DEBIANS) == "0":
        return _lines(_AS_ROOT, f"sysctl -w {_DEBIANS}=1")
    if settings.get(_UBUNTUS) == "1":
        return _lines("AppArmor forbids it to ordinary users. " + _AS_ROOT, f"sysctl -w {_UBUNTUS}=0")
    if in_container:
        flags = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        return _lines("Start this container with", f"{flags} --cap-add SYS_ADMIN --cap-add NET_ADMIN")
    return "Neither sysctl nor a container explains it: a security module may forbid it. `dmesg` may name it."


def kernel_settings() -> dict[str, str]:
    """Read the kernel's settings that decide on namespaces; those that this kernel lacks are left out."""
    files = {name: Path("/proc/sys") / name.replace(".", "/") for name in (*_LIMITS, _DEBIANS, _UBUNTUS)}
    return {name: file.read_text().strip() for name, file in files.items() if file.exists()}


def _has(message: str, *numbers: int) -> bool:
    return any(os.strerror(number) in message for number in numbers)


def _lines(first: str, *commands: str) -> str:
    return "\n  ".join([first, *commands])
