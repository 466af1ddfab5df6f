"""The points that a session measures, in rounds, until the stop rule is content with each of them."""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddlbench.errors import DdlbenchError
from ddlbench.measurements.record import step_time_ms
from ddlbench.measurements.statistics import needs_repetition
from ddlbench.network.link import Link
from ddlbench.network.sites import Sites
from ddlbench.sweep.link_monitor import link_of
from ddlbench.sweep.progress import Progress

if TYPE_CHECKING:
    from ddlbench.sweep.session import Session


@dataclass
class PendingPoint:
    """A point to measure, and the values (step times) that its repetitions gave so far."""

    point: dict[str, Any]
    fingerprint: str
    words: str
    number: int  # among all points of this invocation, from 1
    values: list[float]
    repetitions: int
    settled: bool = False

    @property
    def link(self) -> Link | Sites | None:
        """What it is measured on."""
        return link_of(self.point)

    @property
    def dataset(self) -> str:
        """The key of its data set: name and image shape."""
        return f"{self.point['dataset']}-{'x'.join(map(str, self.point['image_shape']))}"


def measure_in_rounds(session: "Session", pending: list[PendingPoint], progress: Progress) -> None:
    """Measure the points in rounds until the stop rule is content with every point.

    A round takes the runtimes in random order, starting a group anew in each, then the links, and on each its points.
    As a new group and a new link cost time, it begins with those with which the last one ended; so a slow drift of the
    machine favours none of them either.
    """
    order = random.Random(session.job["measure"]["seed"])
    last: Link | Sites | None = None
    while todo := [each for each in pending if not each.settled]:
        order.shuffle(todo)
        links = list(dict.fromkeys(each.link for each in todo))
        links.sort(key=lambda link: link != last)
        runtimes = list(dict.fromkeys(each.point["runtime"] for each in todo))
        runtimes.sort(key=lambda runtime: runtime != session.crew.runtime)
        for each in sorted(
            todo, key=lambda each: (runtimes.index(each.point["runtime"]), links.index(each.link))
        ):
            try:
                record = session.measure(each)
            except DdlbenchError as error:
                raise DdlbenchError(f"{each.words}, repetition {each.repetitions + 1}: {error}") from error
            each.repetitions += 1
            measured = record["status"] == "measured"
            if measured:
                each.values.append(step_time_ms(record) or 0.0)
            each.settled = not measured or not needs_repetition(each.values, session.job["measure"])
            progress.report(each.number, each.words, record, left_here=_repetitions_left(session, pending))
            last = each.link


def _repetitions_left(session: "Session", pending: list[PendingPoint]) -> int:
    """How many more there will be at least: up to the minimum, and one for each point whose interval is too wide."""
    minimum = session.job["measure"]["min_repetitions"]
    return sum(max(1, minimum - each.repetitions) for each in pending if not each.settled)
