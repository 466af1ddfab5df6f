"""The progress that a sweep prints: point i of n, the point in words, its time, and the time left."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from ddlbench.measurements.record import step_time_ms


@dataclass
class Progress:
    """Prints a line for each repetition.

    Attributes:
        points: how many points the whole invocation had to measure at its start.
        elsewhere: the least number of repetitions that other worker groups still have to measure.
        done: the repetitions measured so far.
        started: when it began, in seconds of the monotonic clock.
    """

    points: int
    elsewhere: int
    done: int = 0
    started: float = field(default_factory=monotonic)

    def print_line(self, text: str) -> None:
        """Print a line on standard error.

        Args:
            text: the line, without a line break.
        """
        print(text, file=sys.stderr, flush=True)

    def report(self, number: int, words: str, record: Mapping[str, Any], *, left_here: int) -> None:
        """Count one repetition, and print its point, its result and the time left.

        Args:
            number: of the point, from 1.
            words: the point for a person.
            record: the repetition.
            left_here: how many repetitions this worker group has to do yet, at least.
        """
        self.done += 1
        took = step_time_ms(record)
        stalled_s = record.get("stalled_s")
        cut = f"given up after {stalled_s:.0f} s without a step, " if stalled_s else ""
        result = f"{cut}{took:.3g} ms a step" if took is not None else record["reason"]
        left = self._left(left_here + self.elsewhere)
        self.print_line(
            f"point {number} of {self.points}: {words}, repetition {record['repetition'] + 1}: {result}; {left}"
        )

    def _left(self, repetitions: int) -> str:
        if repetitions == 0:
            return "the last one"
        left_s = (monotonic() - self.started) / self.done * repetitions
        return f"about {left_s / 60:.0f} min left" if left_s >= 90 else f"about {left_s:.0f} s left"
