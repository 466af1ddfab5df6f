"""The points of a session, measured in rounds until their intervals are narrow, or the time for them is used up."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from math import isinf
from pathlib import Path
from time import monotonic
from typing import Protocol, TypeVar

from ddlbench.errors import DdlbenchError, DiskFull
from ddlbench.measurements.record import Record, timed
from ddlbench.measurements.statistics import Total, expected_narrowing
from ddlbench.measurements.store import Store
from ddlbench.network.sites import HostLinks
from ddlbench.plan import Point
from ddlbench.protocol.measure import Measure
from ddlbench.sweep.link_monitor import link_of
from ddlbench.sweep.measured_dilation import rounded_up
from ddlbench.sweep.progress import Progress
from ddlbench.sweep.session_job import PointToMeasure
from ddlbench.sweep.stop_rule import doubt, fewest, needs_repetition

Kind = TypeVar("Kind")


@dataclass
class PendingPoint:
    """A point to measure, and its repetitions so far.

    Attributes:
        number: among all points of this invocation, from 1.
        timed: the steps and times of its repetitions.
        used: the numbers of its repetitions.
        steps: how many steps each repetition has; None: not known yet.
        dilation: of time.
        settled: it needs no other repetition.
        took_s: the wall time of the last repetition.
        has_stalled: the last repetition has, before any step was finished.
    """

    point: Point
    fingerprint: str
    words: str
    number: int
    timed: list[Total]
    used: set[int]
    steps: int | None
    dilation: float = 1.0
    settled: bool = False
    took_s: float = 0.0
    has_stalled: bool = False

    @classmethod
    def of(cls, described: PointToMeasure, dilation: float = 1.0) -> "PendingPoint":
        """Make the pending point from its description in a session's job.

        Args:
            described: the point and its repetitions so far.
            dilation: of time.

        Returns:
            The point; it is not settled.
        """
        return cls(
            Point.from_dict(described.point),
            described.fingerprint,
            described.words,
            described.number,
            list(described.timed),
            set(described.used),
            described.steps,
            dilation,
        )

    @property
    def repetition(self) -> int:
        """The number of the next repetition: the first that is free, so that all points use the same seeds."""
        return next(number for number in count() if number not in self.used)

    def is_given_up(self, record: Record) -> bool:
        """Tell whether nothing more can be learnt of it in this session.

        Args:
            record: its last repetition, which is not noted here yet.

        Returns:
            True if it did not fit, or if its link stalls for minutes, and that is no chance: it did so in the
            repetition before too, or there is no other one.
        """
        status: str = record["status"]
        if status == "stalled":
            return self.has_stalled or not self.timed
        return status == "does_not_fit"

    def forget(self, record: Record) -> None:
        """Take its last repetition back: it needs another one.

        Args:
            record: of the repetition, which was noted here.
        """
        self.used.discard(record["repetition"])
        if timed(record):
            self.timed.pop()
        self.settled = self.has_stalled = False

    @property
    def link(self) -> HostLinks | None:
        """The link, or the sites, that it is measured on; None if no link is emulated."""
        return link_of(self.point)


@dataclass(frozen=True)
class KeptRepetition:
    """A repetition that is in the store.

    Attributes:
        ended_s: when it ended, in seconds of the session.
    """

    pending: PendingPoint
    record: Record
    path: Path
    ended_s: float

    def withdraw(self, store: Store, why: str) -> None:
        """Take it out of the store; its point needs another one.

        Args:
            store: it is in this one.
            why: the reason, for the user.
        """
        store.withdraw(self.path, why)
        self.pending.forget(self.record)


class Measuring(Protocol):
    """What measures points one after another.

    Attributes:
        runtime: what its worker group runs in now.
    """

    @property
    def runtime(self) -> str: ...

    def relaunch(self) -> None:
        """Replace the worker group by a new one."""

    def measure(self, pending: PendingPoint) -> Record:
        """Measure one repetition of a point, and keep its record.

        Args:
            pending: the point, and the number of the repetition.

        Returns:
            The record, not sealed. Its status is `measured`, `does_not_fit` or `stalled`.

        Raises:
            DdlbenchError: the repetition failed, the link has drifted, or a later attempt at the run has begun.
        """


def measure_in_rounds(
    session: Measuring,
    pending: list[PendingPoint],
    measure: Measure,
    progress: Progress,
    carried_s: float = 0.0,
) -> float:
    """Measure the points in rounds: the fewest repetitions of all, then more where an interval is too wide.

    A round takes the runtimes in random order, with a new group for each, then the factors of time dilation, then the
    links, and on each link its points. The order is random so that a slow drift of the machine favours no point. What
    is new costs time, so a round begins with the runtime, the dilation and the link with which the last one ended. If
    `measure.relaunch` says so, each round has a new worker group: then repetitions differ by all that differs between
    launches.

    Args:
        session: measures.
        pending: the points.
        measure: the stop rule, the time for rounds beyond the fewest, and the seed of the order.
        progress: prints each repetition.
        carried_s: time that worker groups before this one did not need.

    Returns:
        The time for more repetitions that this one did not need, in s.

    Raises:
        DdlbenchError: a repetition failed; names the point.
    """
    order = random.Random(measure.seed)
    last: PendingPoint | None = None
    left_s = carried_s + measure.point_budget_s * len(pending)
    is_first = True
    while todo := _next_round(pending, measure, left_s):
        began_s = monotonic()
        if measure.relaunch and not is_first:
            session.relaunch()
        is_first, is_extra = False, len(todo[0].timed) >= fewest(todo[0].point, measure)
        for each in _in_order(todo, order, session.runtime, last):
            began_each_s, planned = monotonic(), each.dilation
            try:
                record = session.measure(each)
            except DiskFull:
                raise
            except DdlbenchError as error:
                raise DdlbenchError(f"{each.words}, repetition {each.repetition + 1}: {error}") from error
            each.used.add(record["repetition"])
            if each.dilation > planned:
                _dilate_untried(pending, each.dilation / planned)
            each.took_s = monotonic() - began_each_s
            if measured := timed(record):
                each.timed.append(measured)
            needs_more = needs_repetition(each.point, each.timed, measure)
            each.settled = each.is_given_up(record) or not needs_more
            each.has_stalled = record["status"] == "stalled"
            progress.report(each.number, each.words, record, left_here=_repetitions_left(pending, measure))
            last = each
        if is_extra:
            left_s -= monotonic() - began_s
    if unresolved := sum(not each.settled for each in pending):
        progress.print_line(
            f"{unresolved} of {len(pending)} points have wider intervals than asked for, and the time for more "
            "repetitions (measure.point_budget_s) is used up"
        )
    return max(0.0, left_s)


def _next_round(pending: list[PendingPoint], measure: Measure, left_s: float) -> list[PendingPoint]:
    """The points of the next round: those that lack repetitions; else those with wide intervals, if there is time."""
    needed = [each for each in pending if not each.settled]
    if lacking := [each for each in needed if len(each.timed) < fewest(each.point, measure)]:
        return lacking
    chosen: list[PendingPoint] = []
    for each in sorted(needed, key=lambda each: _turn(each, measure)):
        if each.took_s < left_s:
            left_s -= each.took_s
            chosen.append(each)
    return chosen


def _turn(pending: PendingPoint, measure: Measure) -> tuple[bool, float]:
    """When a point gets more repetitions: first those whose intervals are soonest narrow enough, so that most will be.

    Last come those that even as many repetitions as are allowed are not expected to make narrow enough; of these the
    widest first.
    """
    width, measured = doubt(pending.point, pending.timed, measure), len(pending.timed)
    if isinf(width) or width * expected_narrowing(measured, measure.max_repetitions) > 1:
        return True, -width
    return False, measured * (width**2 - 1) * pending.took_s


def _dilate_untried(pending: list[PendingPoint], ratio: float) -> None:
    """Dilate points without any repetition as much more as another one needed: a try at less would hardly count."""
    for each in pending:
        if not each.used:
            each.dilation = rounded_up(ratio * each.dilation)


def _in_order(
    todo: list[PendingPoint], order: random.Random, runtime: str, last: PendingPoint | None
) -> Iterator[PendingPoint]:
    """The points of a round by runtimes, dilations, links and at random, from the present ones on."""
    order.shuffle(todo)
    runtimes = _from(runtime, (each.point.runtime for each in todo))
    dilations = _from(last and last.dilation, (each.dilation for each in todo))
    links = _from(last and last.link, (each.link for each in todo))
    yield from sorted(
        todo,
        key=lambda each: (
            runtimes.index(each.point.runtime),
            dilations.index(each.dilation),
            links.index(each.link),
        ),
    )


def _from(first: Kind | None, found: Iterable[Kind]) -> list[Kind]:
    """Each kind once, in the order of what was found, but one of them first."""
    return sorted(dict.fromkeys(found), key=lambda each: each != first)


def _repetitions_left(pending: list[PendingPoint], measure: Measure) -> int:
    """The least number of repetitions left: up to the fewest, and one for each point whose interval is too wide."""
    return sum(max(1, fewest(each.point, measure) - len(each.timed)) for each in pending if not each.settled)
