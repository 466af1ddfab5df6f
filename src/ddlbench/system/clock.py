"""A session's clock, which also sums up what the time was spent on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic


@dataclass
class Clock:
    """What the wall time of a session was spent on.

    Attributes:
        started: when the session started, on the monotonic clock.
        launch_s: starting the first worker group, with its hosts.
        relaunch_s: starting the groups of later rounds, connecting them, and building their models.
        probe_s: checking links and measuring the machine.
        steps_s: timed steps.
    """

    started: float = field(default_factory=monotonic)
    launch_s: float = 0.0
    relaunch_s: float = 0.0
    probe_s: float = 0.0
    steps_s: float = 0.0

    def now_s(self) -> float:
        """Seconds since the session started."""
        return monotonic() - self.started

    @contextmanager
    def probing(self) -> Iterator[None]:
        """Count the time of a `with` block as probing.

        Yields:
            Nothing.
        """
        began = monotonic()
        try:
            yield
        finally:
            self.probe_s += monotonic() - began

    def as_dict(self) -> dict[str, float]:
        """Return the sums by name, in s, and `wall_s`, the time of the whole session."""
        return {
            "wall_s": self.now_s(),
            "launch_s": self.launch_s,
            "relaunch_s": self.relaunch_s,
            "probe_s": self.probe_s,
            "steps_s": self.steps_s,
        }
