"""The links of a session: refused if they cannot be made, verified before measurements count, checked while in use.

A link is verified when it is made for the first time at a time dilation. After every repetition the kernel's settings
of the link are compared with those that were made. A change that only traffic shows (a busy machine, a delay process
without CPU time) is found by a shorter measurement at intervals. It is due when the links have not been measured for
`recheck_s` and for forty times as long as the last measurement took, so that it costs at most a fortieth of the time.

A busy machine makes links slow and late. So what is found wrong while others take the cores is measured again when they
do not.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from ddlbench.errors import DdlbenchError
from ddlbench.network import queueing_disciplines
from ddlbench.network.limits import Capacity, LinkRefused, check_delay
from ddlbench.network.link import Link
from ddlbench.network.sites import HostLinks, SharedCards, Sites
from ddlbench.network.star import Star
from ddlbench.network.traffic import BRIEF, FULL, Effort
from ddlbench.network.verify import OutOfTolerance, verify
from ddlbench.network.verify_sites import verify_sites
from ddlbench.plan import Point
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.system.clock import Clock
from ddlbench.telemetry.other_load import wait_for_others

COST = 1 / 40  # of the time, for checks at most

Result = TypeVar("Result")


class Drifted(DdlbenchError):
    """A link that differs from what it was when it was verified."""


class Degraded(Drifted):
    """A link that is shaped as it was when it was verified, and that the machine does not carry any more."""


def link_of(point: Point) -> HostLinks | None:
    """Find what a point is measured on.

    Args:
        point: of the plan.

    Returns:
        The link, the sites, or the links of hosts whose workers share a card; None if no link is emulated. Missing
        latency (ms) and loss (%) are 0.
    """
    if point.sites:
        return Sites.from_dict(point.sites.as_dict())
    inside = Link(point.inside.bandwidth_mbit, point.inside.latency_ms) if point.inside else None
    if point.bandwidth_mbit is None:
        return inside
    link = Link(point.bandwidth_mbit, point.latency_ms or 0.0, point.loss_percent or 0.0)
    return SharedCards(link, inside) if inside else link


def verified(star: Star, made: HostLinks, tolerances: Tolerances, effort: Effort) -> Mapping[str, object]:
    """Measure what connects the hosts of a star.

    Args:
        star: the hosts; nothing else may be sent over their links.
        made: what they were given, not dilated.
        tolerances: how far it may be from that.
        effort: how long to measure in the first attempt.

    Returns:
        What was measured, for a record.

    Raises:
        OutOfTolerance: it stays out of tolerance; with what was asked for and what was measured.
        DdlbenchError: a process that the links need has died.
    """
    if isinstance(made, Link):
        return verify(star, made, tolerances, effort).as_dict()
    return verify_sites(star, made, tolerances, effort)


class Links:
    """The links between the hosts of a star, and what is known about them.

    Attributes:
        made: the link, or the sites, that the hosts have; None: their links are open.
        right_at_s: when a measurement last found the links right, in seconds of the session.
    """

    def __init__(
        self, star: Star, tolerances: Tolerances, *, recheck_s: float, clock: Clock, patience_s: float = 0.0
    ) -> None:
        """Take over the links of a star.

        Args:
            star: its links are open.
            tolerances: how far a link may be from what was asked for.
            recheck_s: how often to measure a link that is in use.
            clock: of the session.
            patience_s: how long to wait, each time, for others that take the cores.
        """
        self.star = star
        self._patience_s = patience_s
        self.made: HostLinks | None = None
        self.right_at_s = clock.now_s()
        self._tolerances = tolerances
        self._recheck_s = recheck_s
        self._clock = clock
        self._capacity = Capacity(star)
        self._verified: dict[
            tuple[HostLinks, float], Mapping[str, object]
        ] = {}  # what each was measured to be, at each time dilation
        self._settings: queueing_disciplines.Settings = {}
        self._cost_s = 0.0

    @property
    def is_lossy(self) -> bool:
        """Whether the hosts have a link that loses packets: TCP remembers that, for minutes."""
        return self.made is not None and self.made.is_lossy

    def open(self) -> None:
        """Remove the link: nothing is shaped until the next one is made."""
        if self.made:
            self.star.shape(None)
            self.made = None

    def make(self, link: HostLinks) -> Mapping[str, object]:
        """Shape the hosts' link, or their sites, and verify it, if this session has not verified it before.

        Args:
            link: what to make.

        Returns:
            What was measured when it was verified: by name `rate_mbit`, `rtt_ms` and `loss_percent`, or as of
            `verify_sites`.

        Raises:
            LinkRefused: it cannot be made on this machine.
            OutOfTolerance: what was measured differs from what was asked for.
        """
        if link != self.made:
            self._refuse_too_much(link)
            self.star.shape(link)
            self.made = link
            self._settings = queueing_disciplines.settings(self.star)
        if (key := (link, self.star.dilation)) not in self._verified:
            self._verified[key] = self._measured(FULL)
        return self._verified[key]

    def record_of(self, link: HostLinks) -> dict[str, object]:
        """Make a link, as `make` does.

        Args:
            link: what to make.

        Returns:
            What a record says of it: what was asked for, what was measured, and how it is made.

        Raises:
            LinkRefused: it cannot be made on this machine.
            OutOfTolerance: what was measured differs from what was asked for.
        """
        return {
            "asked": link.as_dict(),
            "is_lossy": link.is_lossy,
            "measured": self.make(link),
            "rechecked": None,
            "backend": self.star.backend.name,
        }

    def check(self) -> Mapping[str, object] | None:
        """Check that the link is as it was verified, by the kernel's settings and, if due, by a short measurement.

        Returns:
            What was measured, with `after_s`, the seconds since the measurement before; None if no measurement was due.

        Raises:
            Drifted: the link differs from what was verified; Degraded if only a measurement says so.
        """
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
            raise Degraded(self._words(str(error))) from error
        return {**found, "after_s": silence_s}

    def _refuse_too_much(self, link: HostLinks) -> None:
        """Raise LinkRefused if the link cannot be made here; the machine's capacity is measured on open links."""
        for each, senders in Counter(self.star.links(link)).items():
            check_delay(each, self.star.backend)
            if not self._capacity.is_known(each, senders=senders):
                self.open()
                with self._clock.probing():
                    self._when_quiet(partial(self._capacity.check, each, senders=senders))

    def _measured(self, effort: Effort) -> Mapping[str, object]:
        with self._clock.probing():
            found = self._when_quiet(lambda: self._measured_once(effort))
        self.right_at_s = self._clock.now_s()
        return found

    def _measured_once(self, effort: Effort) -> Mapping[str, object]:
        assert self.made is not None
        began_s = self._clock.now_s()
        found = verified(self.star, self.made, self._tolerances, effort)
        self._cost_s = self._clock.now_s() - began_s
        return found

    def _when_quiet(self, read: Callable[[], Result]) -> Result:
        """Measure a link; if it is wrong, wait until others leave the cores alone, and measure it again."""
        try:
            return read()
        except (LinkRefused, OutOfTolerance) as error:
            if self._patience_s == 0:
                raise
            print(f"{error}\n  The link is measured again.", file=sys.stderr, flush=True)
        wait_for_others(self._patience_s, self._tolerances.others_percent)
        return read()

    def _words(self, now: str) -> str:
        assert self.made is not None
        verified = self._verified[self.made, self.star.dilation]
        return (
            f"the link ({self.made}) has drifted. When it was verified: {verified}. Now: {now}\n"
            "  This repetition does not count, nor do those since the links were last found right."
        )
