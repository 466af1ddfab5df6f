"""How long threads could run and did not, because others had their cores: what the kernel's schedstat files say."""

from collections.abc import Iterable
from pathlib import Path

_MS = 1e6  # nanoseconds


class Waiting:
    """The time that processes ran and waited for a core, from now on.

    Args:
        pids: the ids of the processes, on this machine.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._before = {pid: _of_threads(pid) for pid in pids}

    def since_start(self) -> list[dict[str, float]]:
        """Add up the threads of each process. One that has ended meanwhile is left out.

        Returns:
            For each process `ran_ms` and `waited_ms`, in wall time, which dilation does not divide.
        """
        return [_since(before, _of_threads(pid)) for pid, before in self._before.items()]


def _since(before: dict[str, tuple[int, int]], now: dict[str, tuple[int, int]]) -> dict[str, float]:
    ran_ns = sum(ran - before.get(thread, (0, 0))[0] for thread, (ran, _) in now.items())
    waited_ns = sum(waited - before.get(thread, (0, 0))[1] for thread, (_, waited) in now.items())
    return {"ran_ms": ran_ns / _MS, "waited_ms": waited_ns / _MS}


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
