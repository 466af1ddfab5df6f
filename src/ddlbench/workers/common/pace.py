"""The pace of a host that shares its core with others."""

import time
from collections.abc import Callable


class Pace:
    """Keeps a host that shares its core from computing faster than its share while its neighbours wait.

    The kernel lends an idle neighbour's share to the others; a host of its own has no such neighbour.

    Args:
        core_share: how much of its cores' time the host gets, 0 to 1.
        clock: of the CPU time that computing takes, in seconds: the calling thread's, or the process's for a framework
            that computes in other threads.
    """

    def __init__(self, core_share: float, clock: Callable[[], float] = time.thread_time) -> None:
        self.core_share = core_share
        self.clock = clock
        self.begin()

    def begin(self) -> None:
        """Note that computing begins."""
        self.wall_s, self.cpu_s = time.perf_counter(), self.clock()

    def keep(self) -> None:
        """Sleep until the host's own share would have done what was computed since `begin`, and begin again."""
        computed_s = self.clock() - self.cpu_s
        early_s = computed_s / self.core_share - (time.perf_counter() - self.wall_s)
        if early_s > 0:
            time.sleep(early_s)
        self.begin()
