"""What a worker group needs to start its members with: here, in a container, or on another machine."""

from collections.abc import Mapping
from typing import Any, Protocol


class Process(Protocol):
    """A member's process, with what `subprocess.Popen` offers for one that we have started."""

    @property
    def pid(self) -> int:
        """Its process id, where it runs."""

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int:
        """Its exit status, once it has ended; subprocess.TimeoutExpired where that takes longer than `timeout_s`."""

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""


class Starter(Protocol):
    """Starts members, one an order (see `group`), and is not needed any more when all are there."""

    def start(self, order: Mapping[str, Any], deadline: float) -> Process:
        """Have a member started; DdlbenchError where that fails or is not done at `deadline` (monotonic)."""

    def close(self) -> None:
        """Start no more; what was started goes on."""
