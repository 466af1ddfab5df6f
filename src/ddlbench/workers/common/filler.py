"""The filler of a host that shares its core: it takes the host's turns while the host has nothing to do.

The kernel lends what an idle host leaves to its neighbours. With a filler each host of a core always has something to
run, so each gets its share and no more, whatever runs there. Any thread of the host comes before its filler.
"""

import os
from typing import NoReturn

from ddlbench.system.calls import set_process_name

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
