"""How far time is dilated where compute is replayed by waiting: so far that moving the bytes hardly counts.

What moving them costs is measured with the worker group itself, on its hosts, by steps without any compute: first on
open links, then on links that the bytes of a step pass in a tenth of the step, with the latency of the points' links: a
process of ours may have to delay each packet.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil, floor, fsum, log10
from time import monotonic, sleep

from ddlbench.hosts.group_on_hosts import GroupOnHosts
from ddlbench.network.limits import TBF_MOST_MBIT, forwarded_mbit
from ddlbench.network.link import Link
from ddlbench.network.sizes import LONGEST_TRAIN
from ddlbench.network.star import Star
from ddlbench.network.traffic import BRIEF
from ddlbench.network.verify import OutOfTolerance
from ddlbench.plan import Point
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.sweep.link_monitor import link_of, verified
from ddlbench.sweep.repetition import training_point
from ddlbench.sweep.session_job import SessionJob
from ddlbench.telemetry.waiting import Waiting

LEAST, ENOUGH = 4.0, 10.0  # between them, the shortest dilated step is as long as 100 ticks
TICK_MS = 4.0  # for which a thread that wakes may find its core taken
MARGIN = 1.5  # a byte costs more in one step than in another, by a third where others use the cores
MARGIN_OF_WAITING = 1.2  # it was measured on workers that exchange nothing
_TRIES = 5  # a busy machine may disturb what is measured, never improve it
_LOOK_S = 0.2  # how long to look at workers that have nothing to do, at least,
_LOOK_MS = 3.0  # and before dilation: three of Horovod's cycles
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
        points: all that it will measure.
        allowed: how many of the cores, on average over a step, moving the bytes may take.

    Returns:
        The factor.
    """
    star = group.hosts.star
    assert star is not None
    of_model: dict[tuple[str, tuple[int, ...]], list[Point]] = {}
    for point in points:
        of_model.setdefault((point.model, point.image_shape), []).append(point)
    needed = []
    for same in of_model.values():
        point = same[0]
        moved = _moved(group, star, point)
        step_ms = min(least_step_ms(each, moved.most_bytes) for each in same)
        allowed_ms = allowed * step_ms
        if latencies_ms := _most_latencies_ms(star, same):
            span_ms = _SHARE_OF_STEP * step_ms * max(ENOUGH, moved.work_ms / allowed_ms)
            rate_mbit = moved.most_bytes * 8e-3 / span_ms * star.dilation
            star.shape([Link(rate_mbit, latency_ms) for latency_ms in latencies_ms])
            moved = _moved(group, star, point)
            star.shape(None)
        needed.append(MARGIN * moved.work_ms / allowed_ms)
    return max(needed)


def _most_latencies_ms(star: Star, points: Sequence[Point]) -> list[float]:
    """The latency of each of a star's links, of the point that has the most; none if no point has links."""
    links = [link for point in points if (link := link_of(point))]
    return max(([each.latency_ms for each in star.links(link)] for link in links), key=fsum, default=[])


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


def least_step_ms(point: Point, most_bytes: int) -> float:
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


def _forwardable(star: Star, points: Sequence[Point]) -> float:
    """The dilation with which this machine forwards what all hosts can send at once."""
    links = [link for point in points if (link := link_of(point))]
    of_all_hosts = [Counter(star.links(link)) for link in links]
    most_mbit = max(
        (each.bandwidth_mbit * hosts for found in of_all_hosts for each, hosts in found.items()), default=0.0
    )
    if not most_mbit:
        return 0.0  # a host alone sends nothing
    return most_mbit / max(forwarded_mbit(star, LONGEST_TRAIN) for _ in range(_TRIES))


def _verifiable(star: Star, points: Sequence[Point], dilation: float, tolerances: Tolerances) -> float:
    """Dilate time more if that is needed to check the fastest link, which costs CPU time too; links are open then."""
    links = [link for point in points if (link := link_of(point))]
    if not links:
        return dilation
    fastest = max(links, key=lambda each: max(link.bandwidth_mbit for link in star.links(each)))
    for _ in range(_TRIES):
        star.dilate(dilation)
        star.shape(fastest)
        try:
            verified(star, fastest, tolerances, BRIEF)
            break
        except OutOfTolerance:
            dilation = rounded_up(MARGIN * dilation)
        finally:
            star.shape(None)
    return dilation


def dilated(job: SessionJob, group: GroupOnHosts, points: Sequence[Point]) -> SessionJob:
    """Choose the time dilation of a session, if that was left to measurement, and let the group's hosts have it.

    Args:
        job: the session's.
        group: on its hosts, connected, on open links.
        points: that the group can measure.

    Returns:
        The job, with the dilation.
    """
    placement = job.group.placement
    if not placement.is_least or not points:
        return job
    star, allowed = group.hosts.star, job.most_own_work_percent / 100 * len(group.hosts.hosts[0].cores)
    assert star is not None
    of_bytes = dilation_of_bytes(group, points, allowed)
    factor = rounded_up(max(least_dilation(points), MARGIN * _forwardable(star, points), of_bytes))
    factor = _verifiable(star, points, factor, job.tolerances)
    for _ in range(_TRIES):
        group.dilate(factor, slowest_replay_ms(job))
        group.group.prepare(training_point(points[0], factor), points[0].seed)  # while the links are open
        needed = of_bytes / MARGIN + MARGIN_OF_WAITING * dilation_of_waiting(group, factor, allowed)
        if needed <= factor:
            break
        factor = rounded_up(needed)
    return replace(job, group=replace(job.group, placement=replace(placement, dilation=factor)))


@dataclass(frozen=True)
class _Moved:
    """A step without compute: the CPU time of workers and of what delays packets, and the most bytes on a link."""

    work_ms: float
    most_bytes: int


def _moved(group: GroupOnHosts, star: Star, point: Point) -> _Moved:
    group.group.prepare(training_point(point, takes_time=False), point.seed)
    before, working = star.passed_bytes(), Waiting([*group.group.pids(), *star.backend.pids])
    group.group.train(1, from_fresh=True)
    work_ms = sum(each["ran_ms"] for each in working.since_start())
    passed = zip(chain(*star.passed_bytes()), chain(*before), strict=True)
    return _Moved(work_ms, max(now - then for now, then in passed))


def rounded_up(value: float) -> float:
    """Round a number up to two digits, so that a small change of what it was computed from changes nothing.

    Args:
        value: at least 1.

    Returns:
        The smallest number with two significant digits that is not less.
    """
    digits = 1 - floor(log10(value))
    return ceil(round(value * 10.0**digits, 6)) / 10.0**digits  # 4.4 is a little more than 44 tenths
