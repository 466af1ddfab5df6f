"""What starts the members of a worker group: here, in containers, or on the nodes of an allocation."""

from types import TracebackType
from typing import Protocol, Self

from ddlbench.protocol.messages import StartMember


class Process(Protocol):
    """A member's process, with what `subprocess.Popen` offers for a child."""

    @property
    def pid(self) -> int:
        """Its process id, where it runs."""

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int:
        """Its exit status, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout_s`.
        """

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""


class Starter(Protocol):
    """Starts members; it is not needed any more when all of a group are there."""

    def start(self, member: StartMember, deadline: float) -> Process:
        """Start a member.

        Args:
            member: what to start.
            deadline: when it must have been started (`time.monotonic`).

        Raises:
            DdlbenchError: it could not be started, or not in time.
        """

    def close(self) -> None:
        """Start no more; what was started goes on."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
