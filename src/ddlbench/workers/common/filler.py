"""The filler of a host that shares its core: it takes the host's turns while the host has nothing to do.

The kernel lends what an idle host leaves to its neighbours. With a filler each host of a core always has something to
run, so each gets its share and no more, whatever runs there. Any thread of the host comes before its filler.

A spinner computes as a worker would, so that somebody can look at what the host gets.
"""

import os
from random import Random
from time import sleep, thread_time
from typing import NoReturn

from ddlbench.system.calls import set_process_name
from ddlbench.workers.common.scheduler_slice import shorten_slice

# A filler that never yields keeps the core until the next tick, 4 ms later where HZ is 250, and a host that gets a
# message waits for it. This loop takes 0.1 to 0.2 ms; a switch between hosts takes up to 0.03 ms.
_SPIN = range(5000)


def fill(core: int) -> NoReturn:
    """Spin on a core whenever no other thread of this session wants it, without end.

    Args:
        core: its number.
    """
    set_process_name("ddlbench-filler")
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        for _ in _SPIN:
            pass
        os.sched_yield()


def spin(core: int, burst_ms: float, rest_ms: float) -> NoReturn:
    """Compute on a core in bursts, without end.

    Args:
        core: its number.
        burst_ms: CPU time of a burst.
        rest_ms: between two bursts, on average; 0: none.
    """
    set_process_name("ddlbench-spinner")
    os.sched_setaffinity(0, {core})
    shorten_slice()
    random = Random(core)
    while True:
        end_s = thread_time() + burst_ms / 1000
        while thread_time() < end_s:
            pass
        if rest_ms:
            sleep(random.uniform(0, 2 * rest_ms) / 1000)
