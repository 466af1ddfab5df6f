"""What each core of this machine has done since it started: the kernel's /proc/stat."""

import os
from collections.abc import Iterable
from pathlib import Path

STAT = Path("/proc/stat")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def core_times_s(text: str, cores: Iterable[int]) -> tuple[float, float]:
    """Add up what processes and the hypervisor have taken of some cores since the machine started.

    Args:
        text: the content of /proc/stat.
        cores: the numbers of the cores.

    Returns:
        The time of processes (user, nice and system) and the stolen time, in s.
    """
    ticks = _ticks(text, cores)
    return sum(sum(each[:3]) for each in ticks) * TICK_S, sum(each[7] for each in ticks) * TICK_S


def busy_times_s(text: str, cores: Iterable[int]) -> list[float]:
    """Find for how long each of some cores was not idle since the machine started.

    Args:
        text: the content of /proc/stat.
        cores: the numbers of the cores.

    Returns:
        The times in s, in the order of the file; also of interrupts and of the hypervisor.
    """
    return [(sum(each[:3]) + sum(each[5:8])) * TICK_S for each in _ticks(text, cores)]


def _ticks(text: str, cores: Iterable[int]) -> list[list[int]]:
    """Of each core: user, nice, system, idle, waiting for a disk, interrupts, soft interrupts, stolen, and guests'."""
    wanted = {f"cpu{core}" for core in cores}
    return [list(map(int, numbers)) for name, *numbers in map(str.split, text.splitlines()) if name in wanted]
