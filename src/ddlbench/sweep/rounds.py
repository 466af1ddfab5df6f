"""The points of a session, measured in rounds until the stop rule asks for no more repetitions."""

import random
from dataclasses import dataclass
from typing import Protocol

from ddlbench.errors import DdlbenchError
from ddlbench.measurements.record import Record, step_time_ms
from ddlbench.measurements.statistics import needs_repetition
from ddlbench.network.link import Link
from ddlbench.network.sites import Sites
from ddlbench.plan import Point
from ddlbench.protocol.measure import Measure
from ddlbench.sweep.link_monitor import link_of
from ddlbench.sweep.progress import Progress
from ddlbench.sweep.session_job import PointToMeasure


@dataclass
class PendingPoint:
    """A point to measure, and the step times (ms) of its repetitions so far.

    Attributes:
        number: among all points of this invocation, from 1.
        repetitions: the number of the next one, from 0.
        settled: the stop rule asks for no more.
    """

    point: Point
    fingerprint: str
    words: str
    number: int
    values: list[float]
    repetitions: int
    settled: bool = False

    @classmethod
    def of(cls, described: PointToMeasure) -> "PendingPoint":
        """Make the pending point from its description in a session's job.

        Args:
            described: the point and its repetitions so far.

        Returns:
            The point; it is not settled.
        """
        point = Point.from_dict(described.point)
        return cls(
            point,
            described.fingerprint,
            described.words,
            described.number,
            list(described.values),
            described.repetitions,
        )

    @property
    def link(self) -> Link | Sites | None:
        """The link, or the sites, that it is measured on; None if no link is emulated."""
        return link_of(self.point)


class Measuring(Protocol):
    """What measures points one after another.

    Attributes:
        runtime: what its worker group runs in now.
    """

    @property
    def runtime(self) -> str: ...

    def measure(self, pending: PendingPoint) -> Record:
        """Measure one repetition of a point, and keep its record.

        Args:
            pending: the point, and the number of the repetition.

        Returns:
            The record, not sealed. Its status is `measured` or `does_not_fit`.

        Raises:
            DdlbenchError: the repetition failed, the link has drifted, or a later attempt at the run has begun.
        """


def measure_in_rounds(
    session: Measuring, pending: list[PendingPoint], measure: Measure, progress: Progress
) -> None:
    """Measure the points in rounds until the stop rule asks for no more repetitions.

    A round takes the runtimes in random order, with a new group for each, then the links, and on each link its points.
    The order is random so that a slow drift of the machine favours no point. A new group and a new link cost time, so
    a round begins with the runtime and the link with which the last one ended.

    Args:
        session: measures.
        pending: the points.
        measure: the stop rule, and the seed of the order.
        progress: prints each repetition.

    Raises:
        DdlbenchError: a repetition failed; names the point.
    """
    order = random.Random(measure.seed)
    last: Link | Sites | None = None
    while todo := [each for each in pending if not each.settled]:
        order.shuffle(todo)
        links = list(dict.fromkeys(each.link for each in todo))
        links.sort(key=lambda link: link != last)
        runtimes = list(dict.fromkeys(each.point.runtime for each in todo))
        runtimes.sort(key=lambda runtime: runtime != session.runtime)
        for each in sorted(
            todo, key=lambda each: (runtimes.index(each.point.runtime), links.index(each.link))
        ):
            try:
                record = session.measure(each)
            except DdlbenchError as error:
                raise DdlbenchError(f"{each.words}, repetition {each.repetitions + 1}: {error}") from error
            each.repetitions += 1
            measured = record["status"] == "measured"
            if measured:
                each.values.append(step_time_ms(record) or 0.0)
            each.settled = not measured or not needs_repetition(each.values, measure)
            left_here = _repetitions_left(measure.min_repetitions, pending)
            progress.report(each.number, each.words, record, left_here=left_here)
            last = each.link


def _repetitions_left(minimum: int, pending: list[PendingPoint]) -> int:
    """The least number of repetitions left: up to the minimum, and one for each point whose interval is too wide."""
    return sum(max(1, minimum - each.repetitions) for each in pending if not each.settled)
