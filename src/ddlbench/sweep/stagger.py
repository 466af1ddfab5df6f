"""How workers of a server begin, and which of their first and last steps are not as in the rest of a training."""

from dataclasses import dataclass, replace
from statistics import fmean

from ddlbench.plan import Point
from ddlbench.protocol.messages import Trained
from ddlbench.workers.common.memory import parameter_bytes
from ddlbench.workers.strategies import STRATEGIES

_FIRST, _LAST = 5, 1  # steps of asynchronous workers that do not count; docs/strategies.md has what they took
_FIRST_OF_SYNCHRONOUS = 1
_PARTS = 4  # of a repetition: after each of them it can be cut
_COUNTED = 4  # at least so many steps of a part count, for each that does not


@dataclass(frozen=True)
class Stagger:
    """By how much workers begin one after another, and which steps do not count.

    Workers that begin together push together and pull together, so that half of the server's link is idle, until each
    has a place of its own on it; up to then a step takes up to twice as long as in the rest of a training. Synchronous
    workers find theirs, if the framework lets them, in their first step; asynchronous ones need several steps, and a
    few if they begin one after another.

    Attributes:
        delay_s: each worker begins so much later than the one before it (wall time).
        first: the first steps of each part of a repetition do not count,
        last: nor do the last ones: when some asynchronous workers have ended, the others have the link for themselves.
    """

    delay_s: float = 0.0
    first: int = 0
    last: int = 0

    @classmethod
    def of(cls, point: Point, dilation: float) -> "Stagger":
        """Choose it for a point.

        Args:
            point: of the plan.
            dilation: of time.

        Returns:
            What `of_workers` returns, for the slowest link to the server (no delay if no link is emulated).
        """
        rate_mbit = _slowest_mbit(point)
        size_bytes = parameter_bytes(point.model, point.image_shape)
        transfer_s = size_bytes * 8e-6 / rate_mbit if rate_mbit else 0.0
        return cls.of_workers(point.strategy, point.workers, dilation * transfer_s)

    @classmethod
    def of_workers(cls, strategy: str, workers: int, transfer_s: float) -> "Stagger":
        """Choose it for a group of workers.

        Args:
            strategy: of `STRATEGIES`.
            workers: how many.
            transfer_s: what the parameters take on the link to the server (wall time).

        Returns:
            Of asynchronous workers the delay is what a transfer takes; of synchronous ones of a server there is none;
            nothing for workers without a server, or for one alone.
        """
        of = STRATEGIES[strategy]
        if workers == 1 or not of.servers:
            return AT_ONCE
        return cls(first=_FIRST_OF_SYNCHRONOUS) if of.is_synchronous else cls(transfer_s, _FIRST, _LAST)

    @property
    def uncounted(self) -> int:
        """The steps of a part that do not count."""
        return self.first + self.last

    def parts_of(self, steps: int) -> int:
        """Divide the steps of a repetition into parts, but not so that hardly more steps count than do not.

        Args:
            steps: that count.

        Returns:
            The number of parts.
        """
        return min(_PARTS, max(1, steps // (_COUNTED * self.uncounted or 1)))

    def counted(self, report: Trained) -> Trained:
        """Leave out what does not count of a member's report of a part.

        Args:
            report: of all steps of the part.

        Returns:
            The times of the steps that count; what the others have taken more is taken off the time of communication.
        """
        times_ms = [list(times) for times in report.step_times_ms]
        counted_ms = [times[self.first : len(times) - self.last] for times in times_ms]
        if not any(counted_ms):
            return report
        communication_ms = report.communication_ms
        if communication_ms is not None:
            communication_ms -= _mean(times_ms) - _mean(counted_ms)
        return replace(report, step_times_ms=counted_ms, communication_ms=communication_ms)


AT_ONCE = Stagger()


def _slowest_mbit(point: Point) -> float | None:
    if point.sites:
        of_server, _ = point.sites.lans[-1]  # the last host is the server's
        lans = [lan for _, lan in point.sites.lans]
        wans = [wan for between, wan in point.sites.wans if of_server in between]
        return min(wire.bandwidth_mbit for wire in (*lans, *wans))
    inside_mbit = point.inside.bandwidth_mbit if point.inside else None
    return point.bandwidth_mbit or inside_mbit


def _mean(times_ms: list[list[float]]) -> float:
    return fmean(each for of_worker in times_ms for each in of_worker)
