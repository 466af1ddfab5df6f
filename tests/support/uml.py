"""User-Mode Linux: a kernel that has netem, started as a process over this machine's own root file system.

Debian 12's packages: user-mode-linux (the kernel), kmod (insmod), gcc and libc6-dev (the shim below).
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from ddlbench.sandbox.sandbox import sandbox_argv
from ddlbench.system.processes import die_with_parent
from tests.support.vanishing import vanishing_folder

MODULES = ("drivers/net/veth.ko", "net/sched/sch_tbf.ko", "net/sched/sch_netem.ko")
SHIM = Path(__file__).parent / "uml_xstate.c"
SERVER = [sys.executable, "-m", "inside.serve"]
MEMORY_MB, TIMEOUT_S = 512, 300


class Kernel:
    """A kernel that runs; it does one job after another."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self._folder = folder
        self._process = process
        self._jobs = 0

    def run(self, arguments: Sequence[str], folder: Path) -> int:
        """Run a function of `inside` in `folder`, in a sandbox of its own; returns its exit status.

        Raises RuntimeError with what the kernel said where that does not end.
        """
        self._jobs += 1
        status = self._folder / f"status{self._jobs}"
        job = {"folder": str(folder), "arguments": list(arguments), "status": str(status)}
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(job)}\n".encode())
        self._process.stdin.flush()
        self.wait_for(status, shlex.join(arguments))
        return int(status.read_text())

    def wait_for(self, file: Path, doing: str) -> None:
        """Wait for a file that the kernel writes; where it comes too late, the kernel ends."""
        until = monotonic() + TIMEOUT_S
        while not file.exists():
            if self._process.poll() is not None or monotonic() > until:
                self._process.kill()
                raise RuntimeError(f"User-Mode Linux did not finish: {doing}\n{self.said()}")
            sleep(0.02)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        """The last words of the kernel and of the jobs."""
        return (self._folder / "said").read_text(errors="replace")[-4000:]


@contextmanager
def kernel() -> Iterator[Kernel]:
    """A kernel that boots; it is gone, with all its processes, when the block ends or this process does."""
    with vanishing_folder("uml-") as folder:
        shim = folder / "shim.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(shim), str(SHIM)], check=True)
        init = folder / "init"
        init.write_text(_init(folder / "ready"))
        init.chmod(0o755)
        command = [
            "linux.uml", f"mem={MEMORY_MB}M", "rootfstype=hostfs", "rootflags=/", "rw", f"init={init}",
            "con=null", "con0=fd:0,fd:1", "quiet", f"uml_dir={folder}", "umid=kernel",
        ]  # fmt: skip
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                sandbox_argv(command),  # its threads are processes, which end with their namespace
                env={**os.environ, "LD_PRELOAD": str(shim), "HOME": str(folder)},
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                preexec_fn=_prepare,
            )
        try:
            booted = Kernel(folder, process)
            booted.wait_for(folder / "ready", "boot")
            yield booted
        finally:
            process.kill()
            process.wait()


def _prepare() -> None:
    """Be put aside by no other process, as a kernel is not.

    It switches between processes of its own for each system call, and would wait for a turn each time.
    """
    die_with_parent()
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _init(ready: Path) -> str:
    """The first process of the guest: it mounts, loads modules and waits for jobs."""
    variables = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    lines = [
        "#!/bin/sh",
        *(f"export {key}={shlex.quote(value)}" for key, value in variables.items()),
        "unset LD_PRELOAD",
        'PATH="$PATH:/usr/sbin:/sbin"',
        "stty -echo",
        "mount -t proc proc /proc",
        "mount -t sysfs sysfs /sys",
        "mount -t tmpfs tmpfs /run",
        *(f"insmod /usr/lib/uml/modules/*/kernel/{module} || true" for module in MODULES),
        f"exec {shlex.join([*SERVER, str(ready)])}",
    ]
    return "\n".join(lines) + "\n"
