"""The links of a session: refused where they cannot be made, verified before they count, watched while they are used.

A link is verified when it is made for the first time. After every repetition the kernel is asked whether it still does
what it was told to. A change that only shows in what is carried (a busy machine, a delay process that is starved) is
looked for at intervals, by a shorter measurement; it is due once nothing has been measured for `recheck_s`, and for
forty times as long as the last one took, so that it never costs more than a fortieth of the time.
"""

from collections import Counter
from collections.abc import Mapping

from ddlbench.errors import DdlbenchError
from ddlbench.network import queueing_disciplines
from ddlbench.network.limits import Capacity, check_delay
from ddlbench.network.link import Link
from ddlbench.network.sites import Sites
from ddlbench.network.star import Star
from ddlbench.network.traffic import BRIEF, FULL, Effort
from ddlbench.network.verify import OutOfTolerance, verify
from ddlbench.network.verify_sites import verify_sites
from ddlbench.plan import Point
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.system.clock import Clock

COST = 1 / 40


class Drifted(DdlbenchError):
    """A link that is no longer what it was verified to be."""


def link_of(point: Point) -> Link | Sites | None:
    """The link, or the sites, that a point is measured on, None where no link is used."""
    if point.sites:
        return Sites.from_dict(point.sites.as_dict())
    if point.bandwidth_mbit is None:
        return None
    return Link(point.bandwidth_mbit, point.latency_ms or 0.0, point.loss_percent or 0.0)


class Links:
    """What is made between the hosts of a star, and what is known about it.

    `right_at_s`: when a measurement last found the links right, in seconds of the session.
    """

    def __init__(self, star: Star, tolerances: Tolerances, *, recheck_s: float, clock: Clock) -> None:
        self.star = star
        self.made: Link | Sites | None = None
        self.right_at_s = clock.now_s()
        self._tolerances = tolerances
        self._recheck_s = recheck_s
        self._clock = clock
        self._capacity = Capacity(star)
        self._verified: dict[Link | Sites, Mapping[str, object]] = {}  # what each was measured to be
        self._settings: queueing_disciplines.Settings = {}
        self._cost_s = 0.0

    def open(self) -> None:
        """Let everything through, until the next link is made."""
        if self.made:
            self.star.shape(None)
            self.made = None

    def make(self, link: Link | Sites) -> Mapping[str, object]:
        """Shape the hosts' link, or their sites, and verify it; returns what was measured.

        Raises LinkRefused for one that cannot be made here, and DdlbenchError for one that is not what was asked for.
        """
        if link != self.made:
            self._refuse_too_much(link)
            self.star.shape(link)
            self.made = link
            self._settings = queueing_disciplines.settings(self.star)
        if link not in self._verified:
            self._verified[link] = self._measured(FULL)
        return self._verified[link]

    def check(self) -> Mapping[str, object] | None:
        """Raise Drifted where the link is not what it was any more; returns what was measured anew, if it was due."""
        if self.made is None:
            return None
        self.star.backend.check()
        with self._clock.probing():
            changes = queueing_disciplines.differences(
                self._settings, queueing_disciplines.settings(self.star)
            )
        if changes:
            raise Drifted(self._words(f"somebody has changed how it is shaped ({'; '.join(changes)})"))
        silence_s = self._clock.now_s() - self.right_at_s
        if silence_s < max(self._recheck_s, self._cost_s / COST):
            return None
        try:
            found = self._measured(BRIEF)
        except OutOfTolerance as error:
            raise Drifted(self._words(str(error))) from error
        return {**found, "after_s": silence_s}

    def _refuse_too_much(self, link: Link | Sites) -> None:
        """Raise LinkRefused for what cannot be made here; what must be measured for that is, on open links."""
        for each, senders in Counter(self.star.links(link)).items():
            if not self._capacity.is_known(each, senders=senders):
                self.open()
                check_delay(each, self.star.backend)
                with self._clock.probing():
                    self._capacity.check(each, senders=senders)

    def _measured(self, effort: Effort) -> Mapping[str, object]:
        assert self.made is not None
        began_s = self._clock.now_s()
        found: Mapping[str, object]
        with self._clock.probing():
            if isinstance(self.made, Sites):
                found = verify_sites(self.star, self.made, self._tolerances, effort)
            else:
                found = verify(self.star, self.made, self._tolerances, effort).as_dict()
        self.right_at_s = self._clock.now_s()
        self._cost_s = self.right_at_s - began_s
        return found

    def _words(self, now: str) -> str:
        assert self.made is not None
        return (
            f"the link ({self.made}) has drifted. When it was verified: {self._verified[self.made]}. Now: {now}\n"
            "  This repetition does not count, nor do those since the links were last found right."
        )
