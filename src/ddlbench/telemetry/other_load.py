"""How much of this machine's cores others take: all processes but those that this one sees, and the hypervisor."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from ddlbench.telemetry.core_times import STAT, TICK_S, core_times_s
from ddlbench.telemetry.waiting import Waiting

_LOOK_S = 1.0


@dataclass(frozen=True)
class OtherLoad:
    """What others took of the cores in some time.

    Attributes:
        lasted_s: the time, in s.
        cores: how many cores this process may use; the percentages are of all of them together.
        others_percent: other processes; interrupts are not counted, as most are of our own packets.
        steal_percent: the hypervisor, which ran something else.
    """

    lasted_s: float
    cores: int
    others_percent: float
    steal_percent: float

    def exceeds(self, most_percent: float) -> bool:
        """Say whether it is too much, two ticks of each core aside, as the kernel counts in ticks.

        Args:
            most_percent: what others may take, of the cores.

        Returns:
            Whether it is more.
        """
        ticks_percent = 200 * TICK_S / self.lasted_s
        return self.others_percent + self.steal_percent > most_percent + ticks_percent

    def __str__(self) -> str:
        return (
            f"others take {self.others_percent:.0f} % of this machine's {self.cores} cores, "
            f"the hypervisor {self.steal_percent:.0f} %"
        )


class LoadWatch:
    """Watches, from now on, what others take of the cores that this process may use.

    Args:
        own: lists the ids of our processes; None: all in /proc, which in a sandbox are those of the sandbox.
    """

    def __init__(self, own: Callable[[], Iterable[int]] | None = None) -> None:
        self._cores = os.sched_getaffinity(0)
        self._own = Waiting((own or _all_processes)())
        self._began_s, self._before = monotonic(), _used(self._cores)

    def since_start(self) -> OtherLoad | None:
        """Say what others took since then.

        Returns:
            The load; None if this kernel does not count how long a thread ran.
        """
        if not Path("/proc/thread-self/schedstat").exists():
            return None
        (processes_s, steal_s), lasted_s = _used(self._cores), max(TICK_S, monotonic() - self._began_s)
        own_s = sum(each["ran_ms"] for each in self._own.since_start()) / 1000
        others_s = max(0.0, processes_s - self._before[0] - own_s)
        whole_s = len(self._cores) * lasted_s
        stolen_s = max(0.0, steal_s - self._before[1])
        return OtherLoad(lasted_s, len(self._cores), 100 * others_s / whole_s, 100 * stolen_s / whole_s)


def wait_for_others(patience_s: float, most_percent: float) -> None:
    """Wait until others leave the cores alone, and say so on stderr if somebody has to be waited for.

    Args:
        patience_s: how long to wait at most, in s; 0: not at all.
        most_percent: what they may take, of the cores.
    """
    began, waits = monotonic(), False
    while monotonic() - began < patience_s:
        watch = LoadWatch()
        sleep(_LOOK_S)
        load = watch.since_start()
        if load is None or not load.exceeds(most_percent):
            return
        if not waits:
            print(f"waiting (at most {patience_s:g} s): {load}", file=sys.stderr, flush=True)
        waits = True


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _used(cores: Iterable[int]) -> tuple[float, float]:
    return core_times_s(STAT.read_text(), cores)
