"""The pace of a host that shares its core with others."""

import time
from collections.abc import Callable


class Pace:
    """Keeps a host that shares its core from computing faster than its share while its neighbours wait.

    The kernel lends an idle neighbour's share; a host of its own has no such neighbour. clock: of the CPU time that
    computing takes, which is the caller's own thread's unless the framework computes in others.
    """

    def __init__(self, core_share: float, clock: Callable[[], float] = time.thread_time) -> None:
        self.core_share = core_share
        self.clock = clock
        self.begin()

    def begin(self) -> None:
        """Computing begins now."""
        self.wall_s, self.cpu_s = time.perf_counter(), self.clock()

    def keep(self) -> None:
        """Wait until what has been computed since would be done on the host's own share."""
        computed_s = self.clock() - self.cpu_s
        early_s = computed_s / self.core_share - (time.perf_counter() - self.wall_s)
        if early_s > 0:
            time.sleep(early_s)
        self.begin()
