"""What a sweep tells while it works: point i of n, the point in words, its time, and the time left."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from time import time
from typing import Any

from ddlbench.measurements.record import step_time_ms


@dataclass
class Progress:
    """Counts repetitions of the whole invocation: `total` there were to measure when it `started` (Unix time)."""

    points: int
    total: int
    done: int
    started: float

    def say(self, text: str) -> None:
        """A line on the terminal."""
        print(text, file=sys.stderr, flush=True)

    def report(self, number: int, words: str, record: Mapping[str, Any]) -> None:
        """One repetition is measured."""
        self.done += 1
        self.total = max(self.total, self.done)
        took = step_time_ms(record)
        result = f"{took:.3g} ms a step" if took is not None else record["reason"]
        repetition = record["repetition"] + 1
        self.say(f"point {number} of {self.points}, repetition {repetition}: {words}: {result}; {self._left()}")

    def _left(self) -> str:
        left_s = (time() - self.started) / self.done * (self.total - self.done)
        return f"about {left_s / 60:.0f} min left" if left_s >= 90 else f"about {left_s:.0f} s left"
