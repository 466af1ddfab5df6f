"""What each host got of the cores while it trained, against its share and what explains its threads' waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf
from time import monotonic

from ddlbench.network.hosts import Host
from ddlbench.telemetry.core_times import STAT, busy_times_s
from ddlbench.telemetry.waiting import ThreadTime, Waiting


@dataclass(frozen=True)
class Kept:
    """What a host got in some time.

    Attributes:
        got_percent: the CPU time of its processes and its filler, of its share: 100 is right. None: it has its cores to
            itself, so nothing fills them.
        unexplained_percent: for how long a thread of it could run and did not, of all the time, beyond what the other
            threads of the host and its neighbours' shares explain; the longest of all threads.
    """

    got_percent: float | None
    unexplained_percent: float

    def is_off(self, most_percent: float) -> bool:
        """Say whether the host was not held to its share, or to its own cores.

        Where it shares a core, its threads wait for whole turns of neighbours when they wake up. That is how shares are
        held, and no disturbance.

        Args:
            most_percent: how far it may be off.

        Returns:
            Whether it is farther.
        """
        off = self.unexplained_percent if self.got_percent is None else abs(self.got_percent - 100)
        return off > most_percent

    def __str__(self) -> str:
        if self.got_percent is None:
            return f"waited {self.unexplained_percent:.0f} % of the time for its own cores"
        return f"got {self.got_percent:.0f} % of its share of a core"


class ShareWatch:
    """Watches, from now on, what hosts get.

    Args:
        hosts: in order.
        processes: of each host, the ids of those that train.
        fillers: of each host, the ids of its fillers.
    """

    def __init__(
        self, hosts: Sequence[Host], processes: Sequence[Sequence[int]], fillers: Sequence[Sequence[int]]
    ) -> None:
        self._hosts, self._processes, self._fillers = hosts, processes, fillers
        self._waiting = Waiting([pid for of_host in (*processes, *fillers) for pid in of_host])
        self._began_s, self._busy_s = monotonic(), self._busy_times_s()

    def since_start(self) -> list[Kept]:
        """Look at each host.

        Returns:
            What each got since then, in order.
        """
        lasted_ms = 1000 * (monotonic() - self._began_s)
        times = self._waiting.threads_since_start()
        return [
            kept(host, _of(times, processes), _of(times, fillers), lasted_ms, busiest_ms)
            for host, processes, fillers, busiest_ms in zip(
                self._hosts, self._processes, self._fillers, self._busiest_ms(), strict=True
            )
        ]

    def _busy_times_s(self) -> list[list[float]]:
        text = STAT.read_text()
        return [busy_times_s(text, host.cores) for host in self._hosts]

    def _busiest_ms(self) -> list[float]:
        """For how long the busiest core of each host was not idle, since the start; inf where that is not known."""
        return [
            1000 * max((after - before for before, after in zip(*of_host, strict=True)), default=inf)
            for of_host in zip(self._busy_s, self._busy_times_s(), strict=True)
        ]


def kept(
    host: Host,
    threads: Sequence[ThreadTime],
    fillers: Sequence[ThreadTime],
    lasted_ms: float,
    busiest_ms: float,
) -> Kept:
    """Compare what a host got with what it should have.

    While a thread waits, another one of its host has the core, or its neighbours have, who get as much each as the host
    gets then. So its wait is explained up to what the others ran, and what all of the host ran for each neighbour.
    Nothing waits for an idle core: on Linux 6.18 a thread that slept for minutes was counted as waiting now and then.

    Args:
        host: for its cores and its share of them.
        threads: of the processes that train.
        fillers: the threads of its fillers; none if it has its cores to itself.
        lasted_ms: the time of all.
        busiest_ms: for how much of it the busiest of the host's cores was not idle.

    Returns:
        Both comparisons.
    """
    ran_ms = fsum(each.ran_ms for each in threads)
    neighbours = 1 / host.core_share - 1
    unexplained_ms = max(
        (each.waited_ms - (ran_ms - each.ran_ms) - neighbours * ran_ms for each in threads), default=0.0
    )
    got_ms = ran_ms + fsum(each.ran_ms for each in fillers)
    share_ms = lasted_ms * host.core_share * len(host.cores)
    unexplained_percent = 100 * max(0.0, min(unexplained_ms, busiest_ms)) / lasted_ms
    return Kept(100 * got_ms / share_ms if fillers else None, unexplained_percent)


def _of(times: Mapping[int, Sequence[ThreadTime]], pids: Sequence[int]) -> list[ThreadTime]:
    return [thread for pid in pids for thread in times[pid]]
