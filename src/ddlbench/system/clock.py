"""Where the wall time of a session goes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic


@dataclass
class Clock:
    """Where the wall time of a session went, in seconds."""

    started: float = field(default_factory=monotonic)
    launch_s: float = 0.0
    probe_s: float = 0.0
    steps_s: float = 0.0

    def now_s(self) -> float:
        """How long the session has taken so far."""
        return monotonic() - self.started

    @contextmanager
    def probing(self) -> Iterator[None]:
        """Count what happens in the `with` as probing."""
        began = monotonic()
        try:
            yield
        finally:
            self.probe_s += monotonic() - began

    def as_dict(self) -> dict[str, float]:
        """The sums, and the whole session's time."""
        return {
            "wall_s": self.now_s(),
            "launch_s": self.launch_s,
            "probe_s": self.probe_s,
            "steps_s": self.steps_s,
        }
