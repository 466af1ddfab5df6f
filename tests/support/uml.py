"""User-Mode Linux: a kernel that has netem, started as a process over this machine's own root file system.

Debian 12's packages: user-mode-linux (the kernel), kmod (insmod), gcc and libc6-dev (the shim below).
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

MODULES = ("drivers/net/veth.ko", "net/sched/sch_tbf.ko", "net/sched/sch_netem.ko")
SHIM = Path(__file__).parent / "uml_xstate.c"
MEMORY_MB, TIMEOUT_S = 512, 300


def run(command: Sequence[str], folder: Path) -> int:
    """Run `command` in `folder` as root of a kernel of its own; returns its exit status.

    Raises RuntimeError with what the kernel said where it did not get as far as that.
    """
    with TemporaryDirectory(prefix="uml-") as name:
        work = Path(name)
        shim = work / "shim.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(shim), str(SHIM)], check=True)
        status = work / "status"
        init = work / "init"
        init.write_text(_init(command, folder, status))
        init.chmod(0o755)
        kernel = [
            "linux.uml", f"mem={MEMORY_MB}M", "rootfstype=hostfs", "rootflags=/", "rw", f"init={init}",
            "con=null", "con0=fd:0,fd:1", "quiet", f"uml_dir={work}", "umid=kernel",
        ]  # fmt: skip
        with (work / "said").open("w+") as said:
            process = subprocess.Popen(
                kernel,
                env={**os.environ, "LD_PRELOAD": str(shim), "HOME": str(work)},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,  # its processes are threads of the guest: they end with their group
                preexec_fn=_go_first,
            )
            try:
                process.wait(TIMEOUT_S)
            finally:
                _end(process)
            if not status.is_file():
                said.seek(0)
                raise RuntimeError(f"User-Mode Linux did not finish {shlex.join(command)}:\n{said.read()}")
        return int(status.read_text())


def _go_first() -> None:
    """Be put aside by no other process, as a kernel is not.

    It switches between processes of its own for each system call, and would wait for a turn each time.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def is_here() -> bool:
    """Whether the packages are installed."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return all(shutil.which(program, path=path) for program in ("linux.uml", "gcc", "insmod"))


def _init(command: Sequence[str], folder: Path, status: Path) -> str:
    """The first process of the guest: it mounts, loads modules, runs the command and switches off."""
    variables = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    lines = [
        "#!/bin/sh",
        *(f"export {key}={shlex.quote(value)}" for key, value in variables.items()),
        'PATH="$PATH:/usr/sbin:/sbin"',
        "mount -t proc proc /proc",
        "mount -t sysfs sysfs /sys",
        "mount -t tmpfs tmpfs /run",
        *(f"insmod /usr/lib/uml/modules/*/kernel/{module} || true" for module in MODULES),
        f"cd {shlex.quote(str(folder))}",
        f"{shlex.join(command)} </dev/null",
        f"echo $? >{shlex.quote(str(status))}",
        "sync",
        "echo o >/proc/sysrq-trigger",
        "sleep 10",
    ]
    return "\n".join(lines) + "\n"


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()
