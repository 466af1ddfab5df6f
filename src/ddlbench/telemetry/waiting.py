"""How long threads could run and did not, because others had their cores: what the kernel's schedstat files say."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from pathlib import Path

_MS = 1e6  # nanoseconds


@dataclass(frozen=True)
class ThreadTime:
    """For how long a thread ran, and for how long it could run and did not, in ms of wall time."""

    ran_ms: float
    waited_ms: float


class Waiting:
    """The time that processes ran and waited for a core, from now on.

    Args:
        pids: the ids of the processes, on this machine.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._before = {pid: _of_threads(pid) for pid in pids}

    def since_start(self) -> list[dict[str, float]]:
        """Add up the threads of each process.

        Returns:
            For each process `ran_ms` and `waited_ms`, in wall time, which dilation does not divide; zeros for one that
            has ended meanwhile.
        """
        return [
            {
                "ran_ms": fsum(each.ran_ms for each in threads),
                "waited_ms": fsum(each.waited_ms for each in threads),
            }
            for threads in self.threads_since_start().values()
        ]

    def threads_since_start(self) -> dict[int, list[ThreadTime]]:
        """Look at each thread for itself. One that has ended meanwhile is left out.

        Returns:
            The threads of each process, by its id; none of a process that has ended.
        """
        return {pid: _since(before, _of_threads(pid)) for pid, before in self._before.items()}


def _since(before: dict[str, tuple[int, int]], now: dict[str, tuple[int, int]]) -> list[ThreadTime]:
    old = {thread: before.get(thread, (0, 0)) for thread in now}
    return [
        ThreadTime((ran - old[thread][0]) / _MS, (waited - old[thread][1]) / _MS)
        for thread, (ran, waited) in now.items()
    ]


def _of_threads(pid: int) -> dict[str, tuple[int, int]]:
    """For each thread of a process the nanoseconds that it ran and waited; none where the kernel does not say."""
    found = {}
    for file in Path("/proc", str(pid), "task").glob("*/schedstat"):
        try:
            ran, waited, *_ = file.read_text().split()
        except (OSError, ValueError):  # the thread has ended
            continue
        found[file.parent.name] = int(ran), int(waited)
    return found
