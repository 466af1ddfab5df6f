"""What the kernel divides a core between: the sessions or the control groups of hosts, and on which cores these are."""

import os
from pathlib import Path
from time import sleep


def part_of_core(pid: int) -> str:
    """The session and the control group that a process is in, as the scheduler sees them, and its cores.

    Processes of which all that is the same get one part of a core together.
    """
    told = [Path("/proc", str(pid), name) for name in ("autogroup", "cgroup")]
    text = "".join(each.read_text() for each in told if each.exists())
    return f"{text}cores {sorted(os.sched_getaffinity(pid))}"


def part_of_filler(pid: int) -> str:
    """That of a filler, which must run: it comes after all threads of its host as soon as it has had a turn."""
    while os.sched_getscheduler(pid) != os.SCHED_IDLE:
        sleep(0.01)
    return part_of_core(pid)
