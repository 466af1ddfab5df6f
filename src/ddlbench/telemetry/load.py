"""The CPU time and memory of a host's processes."""

import os
import resource
import time
from collections.abc import Iterable

import psutil

from ddlbench.system.calls import process_cpu_clock


class Load:
    """CPU time and memory of processes and of all that they have started.

    The kernel's CPU clock of a process counts the nanoseconds of all its threads; /proc counts hundredths of a second.

    Args:
        pids: the ids of the processes.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._roots = list(pids)
        self._cpu_ns: dict[int, int] = {}  # of processes that have ended too
        self._processes: dict[int, tuple[int, int]] = {}  # pid -> its CPU clock, its open statm
        self.find_children()

    def find_children(self) -> None:
        """Include the processes that were started since the last call."""
        for root in self._roots:
            try:
                children = psutil.Process(root).children(recursive=True)
            except psutil.NoSuchProcess:
                continue
            for pid in [root, *(child.pid for child in children)]:
                if pid not in self._processes and (process := _open(pid)):
                    self._processes[pid] = process

    def read(self) -> tuple[int, int]:
        """Return the CPU time since the processes were started, in ns, and their present resident memory, in bytes."""
        memory = 0
        for pid, (clock, statm) in list(self._processes.items()):
            try:
                self._cpu_ns[pid] = time.clock_gettime_ns(clock)
                memory += int(os.pread(statm, 64, 0).split()[1])
            except (OSError, IndexError):  # it has ended
                os.close(statm)
                del self._processes[pid]
        return sum(self._cpu_ns.values()), memory * resource.getpagesize()


def _open(pid: int) -> tuple[int, int] | None:
    if (clock := process_cpu_clock(pid)) is None:
        return None
    try:
        return clock, os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
