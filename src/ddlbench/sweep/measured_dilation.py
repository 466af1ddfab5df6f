"""How far time is dilated where compute is replayed by waiting: so far that moving the bytes hardly counts.

What moving them costs is measured with the worker group itself, on its hosts, by steps without any compute: first on
open links, then on links that the bytes of a step pass in a tenth of the step, with the latency of the points' links: a
process of ours may have to delay each packet.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil, floor, fsum, inf, log10
from time import monotonic, sleep
from typing import TypeVar

from ddlbench.hosts.group_on_hosts import GroupOnHosts
from ddlbench.network.limits import TBF_MOST_MBIT, forwarded_mbit
from ddlbench.network.link import Link
from ddlbench.network.sites import HostLinks
from ddlbench.network.sizes import LONGEST_TRAIN
from ddlbench.network.star import Star
from ddlbench.network.traffic import BRIEF
from ddlbench.network.verify import OutOfTolerance
from ddlbench.plan import Point
from ddlbench.protocol.messages import ModelShape
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.sweep.link_monitor import link_of, verified
from ddlbench.sweep.repetition import training_point
from ddlbench.sweep.session_job import SessionJob
from ddlbench.sweep.stagger import Stagger
from ddlbench.telemetry.waiting import Waiting

Key = TypeVar("Key", bound=Hashable)

LEAST, ENOUGH = 4.0, 10.0  # between them, the shortest dilated step is as long as 100 ticks
TICK_MS = 4.0  # for which a thread that wakes may find its core taken
MARGIN = 1.5  # a byte costs more in one step than in another, by a third where others use the cores
MARGIN_OF_WAITING = 1.2  # it was measured on workers that exchange nothing
_TRIES = 5  # a busy machine may disturb what is measured, never improve it
_LOOK_S = 0.2  # how long to look at workers that have nothing to do, at least,
_LOOK_MS = 3.0  # and before dilation: three of Horovod's cycles
_HARDLY_DIFFERENT = 1.25
_SHARE_OF_STEP = 0.1  # in which the bytes pass while their cost is measured


def least_dilation(points: Sequence[Point]) -> float:
    """Compute the dilation that points need at least, whatever moving their bytes costs.

    Args:
        points: of a run.

    Returns:
        LEAST to ENOUGH, the larger the shorter steps are, or more where the kernel shapes no link that is as fast as
        theirs.
    """
    rates_mbit = [each.bandwidth_mbit for point in points for each in (point, point.inside) if each]
    fastest_mbit = max((rate for rate in rates_mbit if rate), default=0.0)
    steps_ms = [each.replay.step_ms for each in points if each.replay and not each.replay.unknown]
    of_ticks = min(ENOUGH, max(LEAST, 100 * TICK_MS / min(steps_ms, default=TICK_MS)))
    return rounded_up(max(of_ticks, fastest_mbit / TBF_MOST_MBIT))


def dilation_of_bytes(group: GroupOnHosts, points: Sequence[Point], allowed: float) -> float:
    """Compute the time dilation that points need by what moving the bytes of a step costs on this machine.

    Args:
        group: on emulated hosts, connected, on open links; they are open again afterwards.
        points: of one model and one link.
        allowed: how many of the cores, on average over a step, moving the bytes may take.

    Returns:
        The factor.
    """
    star, link = group.hosts.star, link_of(points[0])
    assert star is not None
    moved = _moved(group, star, points[0])
    step_ms = min(least_step_ms(each, moved.most_bytes) for each in points)
    allowed_ms = allowed * step_ms
    if link:
        span_ms = _SHARE_OF_STEP * step_ms * max(ENOUGH, moved.work_ms / allowed_ms)
        rate_mbit = moved.most_bytes * 8e-3 / span_ms * star.dilation
        star.shape([Link(rate_mbit, each.latency_ms) for each in star.links(link)])
        moved = _moved(group, star, points[0])
        star.shape(None)
    return MARGIN * moved.work_ms / allowed_ms


def dilation_of_waiting(group: GroupOnHosts, dilation: float, allowed: float) -> float:
    """Compute the time dilation that workers need besides, by what they do while they have nothing to do.

    Horovod's workers ask each other at intervals which gradients are ready, and the intervals are dilated.

    Args:
        group: has this dilation, and nothing to do.
        dilation: of time.
        allowed: how many of the cores, on average, the workers may take.

    Returns:
        The factor; near 0 for workers that only wait.
    """
    watched, began_s = Waiting(group.group.pids()), monotonic()
    sleep(max(_LOOK_S, _LOOK_MS * dilation / 1000))
    work_ms = fsum(each["ran_ms"] for each in watched.since_start())
    return dilation * work_ms / (1000 * (monotonic() - began_s)) / allowed


def least_step_ms(point: Point, most_bytes: float) -> float:
    """Compute what a replayed step takes at least: its compute, or its bytes on the link that most of them pass.

    Args:
        point: its compute is replayed.
        most_bytes: that pass a host's link in one direction, in a step.

    Returns:
        The time in ms, without dilation. Of hosts of several workers, or on sites, compute alone counts: which of
        several links the bytes pass is not known.
    """
    assert point.replay is not None
    alone = point.bandwidth_mbit is None or point.workers_per_host > 1
    on_link_ms = 0.0 if alone else most_bytes * 8e-3 / float(point.bandwidth_mbit or 0)
    return max(point.replay.step_ms, on_link_ms)


def slowest_replay_ms(job: SessionJob) -> float:
    """Find what the slowest replayed step of a session takes.

    Args:
        job: the session's.

    Returns:
        The time in ms, without dilation; 0: none is replayed.
    """
    return max(Point.from_dict(each.point).slowest_replay_ms for each in job.points)


def _forwarded_mbit(star: Star, points: Sequence[Point]) -> float:
    """What this machine forwards between all hosts; endless for a host alone, which sends nothing."""
    if not any(link_of(point) for point in points):
        return inf
    return max(forwarded_mbit(star, LONGEST_TRAIN) for _ in range(_TRIES))


def _most_mbit(star: Star, link: HostLinks | None) -> float:
    """What all hosts can send at once: over their links, or over what these lead to."""
    alike = Counter(star.links(link)) if link else {}
    return max((each.bandwidth_mbit * count for each, count in alike.items()), default=0.0)


def _verifiable(star: Star, link: HostLinks | None, dilation: float, tolerances: Tolerances) -> float:
    """Dilate time more if that is needed to check the link, which costs CPU time too; links are open then."""
    if link is None:
        return dilation
    for _ in range(_TRIES):
        star.dilate(dilation)
        star.shape(link)
        try:
            verified(star, link, tolerances, BRIEF)
            break
        except OutOfTolerance:
            dilation = rounded_up(MARGIN * dilation)
        finally:
            star.shape(None)
    return dilation


def dilated(job: SessionJob, group: GroupOnHosts, points: Sequence[Point]) -> SessionJob:
    """Choose the time dilation of each model on each link, if that was left to measurement.

    Args:
        job: the session's.
        group: on its hosts, connected, on open links; afterwards its hosts have the most of these dilations.
        points: that the group can measure.

    Returns:
        The job, with the dilations.
    """
    placement = job.group.placement
    if not placement.is_least or not points:
        return job
    alike: dict[tuple[ModelShape, HostLinks | None], list[Point]] = {}
    for point in points:
        alike.setdefault(_model_and_link(point), []).append(point)
    star = group.hosts.star
    assert star is not None
    forwards_mbit = _forwarded_mbit(star, points)
    chosen = with_few_factors({of: _dilation(job, group, same, forwards_mbit) for of, same in alike.items()})
    most = max(chosen.values())
    group.dilate(most, slowest_replay_ms(job))
    described = {each.fingerprint: _model_and_link(Point.from_dict(each.point)) for each in job.points}
    of_points = {fingerprint: chosen[of] for fingerprint, of in described.items() if of in chosen}
    of_group = replace(job.group, placement=replace(placement, dilation=most))
    return replace(job, group=of_group, dilations=of_points)


def with_few_factors(dilations: Mapping[Key, float]) -> dict[Key, float]:
    """Raise dilations to larger ones that hardly differ: with each factor come new connections and checks of links.

    Args:
        dilations: of time.

    Returns:
        The same keys, each with its own dilation or with one that is larger by a quarter at most.
    """
    raised: dict[Key, float] = {}
    factor = inf
    for key, least in sorted(dilations.items(), key=lambda item: -item[1]):
        factor = factor if factor <= _HARDLY_DIFFERENT * least else least
        raised[key] = factor
    return raised


def _model_and_link(point: Point) -> tuple[ModelShape, HostLinks | None]:
    return ModelShape(point.model, point.image_shape), link_of(point)


def _dilation(job: SessionJob, group: GroupOnHosts, points: Sequence[Point], forwards_mbit: float) -> float:
    """Choose the time dilation of points of one model and one link, where this machine forwards so much."""
    star, allowed = group.hosts.star, job.most_own_work_percent / 100 * len(group.hosts.hosts[0].cores)
    assert star is not None
    of_bytes = dilation_of_bytes(group, points, allowed)
    link = link_of(points[0])
    factor = rounded_up(
        max(least_dilation(points), MARGIN * _most_mbit(star, link) / forwards_mbit, of_bytes)
    )
    factor = _verifiable(star, link, factor, job.tolerances)
    for _ in range(_TRIES):
        group.dilate(factor, slowest_replay_ms(job))
        group.group.prepare(training_point(points[0], factor), points[0].seed)  # while the links are open
        needed = of_bytes / MARGIN + MARGIN_OF_WAITING * dilation_of_waiting(group, factor, allowed)
        if needed <= factor:
            break
        factor = rounded_up(needed)
    return factor


@dataclass(frozen=True)
class _Moved:
    """A step without compute: the CPU time of workers and of what delays packets, and the most bytes on a link."""

    work_ms: float
    most_bytes: float


def _moved(group: GroupOnHosts, star: Star, point: Point) -> _Moved:
    """Make the fewest steps that a repetition has: what they begin with is moved once for all of them."""
    steps = 1 + Stagger.of(point, star.dilation).uncounted
    group.group.prepare(training_point(point, takes_time=False), point.seed)
    before, working = star.passed_bytes(), Waiting([*group.group.pids(), *star.backend.pids])
    group.group.train(steps, from_fresh=True)
    work_ms = sum(each["ran_ms"] for each in working.since_start())
    passed = zip(chain(*star.passed_bytes()), chain(*before), strict=True)
    return _Moved(work_ms / steps, max(now - then for now, then in passed) / steps)


def rounded_up(value: float) -> float:
    """Round a number up to two digits, so that a small change of what it was computed from changes nothing.

    Args:
        value: at least 1.

    Returns:
        The smallest number with two significant digits that is not less.
    """
    digits = 1 - floor(log10(value))
    return ceil(round(value * 10.0**digits, 6)) / 10.0**digits  # 4.4 is a little more than 44 tenths
