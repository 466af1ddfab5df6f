"""Hosts that share a core, held to their shares of it from outside of their processes."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import TIMEOUT_MAX, Timer
from types import TracebackType
from typing import Self

from ddlbench.errors import DdlbenchError
from ddlbench.launch.starter import Process, Starter
from ddlbench.network.hosts import Host
from ddlbench.protocol.fork_messages import StartFiller


class Fillers:
    """A filler on each host that shares its core, and idle neighbours where fewer hosts share it than its share says.

    The kernel divides a core fairly between hosts (`shares.core_division`). What an idle host leaves goes to its
    neighbours; fillers leave nothing. They run in `running` alone: a group that does not train needs no shares.

    Args:
        starter: of the hosts' members.
        hosts: all hosts of the group.
        deadline: when the fillers must have been started, by `time.monotonic` in seconds.

    Raises:
        DdlbenchError: a filler could not be started, or not in time.
    """

    def __init__(self, starter: Starter, hosts: Sequence[Host], deadline: float) -> None:
        shared = [host for host in hosts if host.core_share < 1]
        cores = [(host.name, core) for host in shared for core in host.cores]
        for core in sorted({core for _, core in cores}):
            idle = round(1 / shared[0].core_share) - sum(core == each for _, each in cores)
            cores += [(f"idle{number}-core{core}", core) for number in range(idle)]
        self._processes: list[tuple[str, Process]] = []
        with ExitStack() as on_error:
            on_error.callback(self._kill)
            for host, core in cores:
                self._processes.append((host, starter.start(StartFiller(host=host, core=core), deadline)))
            self._signal(signal.SIGSTOP)
            on_error.pop_all()

    @property
    def hosts(self) -> list[str]:
        """The names of all that have fillers: the hosts that share a core, and then their idle neighbours."""
        return list(dict.fromkeys(name for name, _ in self._processes))

    def pids(self, host: str) -> list[int]:
        """List the fillers of a host.

        Args:
            host: its name, or that of an idle neighbour.

        Returns:
            Their process ids; none where the host has its cores to itself.
        """
        return [process.pid for name, process in self._processes if name == host]

    @contextmanager
    def running(self, at_most_s: float = TIMEOUT_MAX) -> Iterator[None]:
        """Hold the hosts to their shares for the length of a `with`.

        Args:
            at_most_s: after so many seconds they are held no more: who then has not ended waits, and computes nothing.

        Yields:
            Nothing; each host of a core that is shared has its share, and no more.

        Raises:
            DdlbenchError: a filler has ended.
        """
        end = Timer(at_most_s, self._signal, [signal.SIGSTOP])
        self._signal(signal.SIGCONT)
        end.start()
        try:
            yield
        finally:
            end.cancel()
            end.join()
            self._signal(signal.SIGSTOP)
        if any(process.poll() is not None for _, process in self._processes):
            raise DdlbenchError(
                "the filler of a host has ended, so the hosts were not held to their shares of a core"
            )

    def _signal(self, number: int) -> None:
        for _, process in self._processes:
            os.kill(process.pid, number)

    def _kill(self) -> None:
        for _, process in self._processes:
            process.kill()
        for _, process in self._processes:
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
