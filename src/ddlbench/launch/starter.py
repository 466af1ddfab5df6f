"""The interface of what starts members: a fork server, containers, or the agents of an allocation's nodes."""

from types import TracebackType
from typing import Protocol, Self

from ddlbench.protocol.fork_messages import Start


class Process(Protocol):
    """A member's process, with what `subprocess.Popen` offers for a child."""

    @property
    def pid(self) -> int:
        """Its process id, where it runs."""

    def poll(self) -> int | None:
        """Read its exit status, negative for a signal; None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until it has ended.

        Args:
            timeout_s: how long to wait, in seconds; None: without end.

        Returns:
            Its exit status, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout_s`.
        """

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""


class Starter(Protocol):
    """Starts members; a group does not need it any more when all its members are connected."""

    def start(self, start: Start, deadline: float) -> Process:
        """Start a member, or the filler or a spinner of a host.

        Args:
            start: what to start.
            deadline: when it must have been started, by `time.monotonic` in seconds.

        Returns:
            Its process.

        Raises:
            DdlbenchError: it could not be started, or not in time.
        """

    def close(self) -> None:
        """Start no more members; those that were started continue."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
