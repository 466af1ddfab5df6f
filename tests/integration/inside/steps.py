"""Steps of worker groups on emulated links: what they send, and how long they take."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from time import monotonic
from typing import Any

from ddlbench.hosts.group_on_hosts import GroupOnHosts, launched
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.network.link import Link
from ddlbench.network.sites import SharedCards
from ddlbench.network.star import Star
from ddlbench.protocol.messages import (
    ModelShape,
    TimeCollective,
    Timed,
    TrainingPoint,
)
from ddlbench.workers.strategies import STRATEGIES
from inside.group_jobs import group_job, training_point
from inside.star import data_sent


@contextmanager
def _prepared(
    job: GroupJob, point: TrainingPoint, seed: int, link: Link | SharedCards
) -> Iterator[tuple[GroupOnHosts, Star]]:
    """A group that has connected while its links were open, and has taken a point on the link."""
    with launched(job) as on_hosts:
        star = on_hosts.hosts.star
        assert star is not None
        on_hosts.group.connect([ModelShape(*point.key)])
        star.shape(link)
        on_hosts.group.prepare(point, seed)
        yield on_hosts, star


def bytes_of_a_step(
    python: str,
    datasets: dict[str, str],
    strategy: str,
    point: dict[str, Any],
    workers: int,
    servers: int = 0,
    framework: str = "torch",
    steps: int = 10,
    replayed: bool = False,
) -> dict[str, list[float]]:
    """What each host sends and receives in a step, in bytes of TCP's data; servers have a host of their own."""
    job = group_job(python, framework, strategy, workers, servers=servers, replayed=replayed)
    job = replace(job, datasets=datasets)
    with _prepared(job, training_point(point), point["seed"], Link(1000)) as (on_hosts, star):
        moved = _data_of_a_step(on_hosts.group, star, steps)
    hosts = range(workers + servers)
    return {
        "sent": [sum(moved[host, other] for other in hosts if other != host) for host in hosts],
        "received": [sum(moved[other, host] for other in hosts if other != host) for host in hosts],
    }


def steps_on_a_slow_link(
    python: str,
    datasets: dict[str, str],
    framework: str,
    strategy: str,
    workers: int,
    point: dict[str, Any],
    bandwidth_mbit: float,
    times: int,
    delay_s: float = 0.0,
    replayed: bool = False,
    counted: int = 0,
) -> dict[str, list[float]]:
    """Steps by commands of one each: the times in ms that workers tell, and in s until all have answered a command.

    And how many steps the heartbeats of all members tell of, once these are `counted`. A server has a host of its own.
    Each worker begins `delay_s` later than the one before it.
    """
    servers = STRATEGIES[strategy].servers
    job = group_job(python, framework, strategy, workers, servers=servers, replayed=replayed)
    job = replace(job, datasets=datasets)
    with _prepared(job, training_point(point), point["seed"], Link(bandwidth_mbit)) as (on_hosts, _):
        ends_s, trained = [monotonic()], []
        for time in range(times):
            trained.append(on_hosts.group.train(1, from_fresh=not time, delay_s=delay_s))
            ends_s.append(monotonic())
        told = _told_by_heartbeats(on_hosts.group, at_least=counted)
    return {
        "told_by_heartbeats": [told],
        "step_times_ms": [
            time_ms
            for replies in trained
            for reply in replies
            for of in reply.step_times_ms
            for time_ms in of
        ],
        "answered_s": [end_s - began_s for began_s, end_s in pairwise(ends_s)],
    }


def _told_by_heartbeats(group: WorkerGroup, *, at_least: int) -> int:
    """Of how many steps heartbeats tell, of all members together, as soon as these are enough or a minute is over."""
    members, until = group._members, monotonic() + 60
    with members.listened_to() as selector:
        while (
            told := sum(each.made_steps or 0 for each in members.by_rank)
        ) < at_least and monotonic() < until:
            list(members.arrived(selector))
    return told


def bytes_through_cards(
    python: str, strategy: str, point: dict[str, Any], workers: int, workers_per_host: int, framework: str
) -> dict[str, list[float]]:
    """What each worker sends in a replayed step, and what each host's card lets out, in bytes of TCP's data."""
    job = group_job(python, framework, strategy, workers, replayed=True)
    cards = tuple(rank // workers_per_host for rank in range(workers))
    job = replace(job, workers_per_host=workers_per_host, placement=replace(job.placement, cards=cards))
    links = SharedCards(card=Link(1000), inside=Link(4000))
    with _prepared(job, training_point(point), point["seed"], links) as (on_hosts, star):
        moved = _data_of_a_step(on_hosts.group, star, steps=4)
    return {
        "inside": [
            sum(moved[rank, other] for other in range(workers) if other != rank) for rank in range(workers)
        ],
        "cards": [
            sum(sent for (rank, other), sent in moved.items() if cards[rank] == card != cards[other])
            for card in dict.fromkeys(cards)
        ],
    }


def _data_of_a_step(group: WorkerGroup, star: Star, steps: int) -> dict[tuple[int, int], float]:
    """What each host sends each other one in a step, without what surrounds the steps."""
    found = []
    for trained in (3, 3 + steps):
        before = data_sent(star)
        group.train(trained, from_fresh=True)
        found.append({pair: sent - before[pair] for pair, sent in data_sent(star).items()})
    fewer, more = found
    return {pair: (more[pair] - fewer[pair]) / steps for pair in more}


def sent_bytes(python: str, collective: str) -> int:
    """What one collective of 4 MB makes the first host of two send."""
    command = TimeCollective(collective, elements=1 << 20, times=1)
    job = replace(group_job(python, "torch", "ring_allreduce", 2), worker="torch_collectives")
    with launched(job) as on_hosts:
        group, star = on_hosts.group, on_hosts.hosts.star
        assert star is not None
        group.command(command, Timed, "connecting", 60)
        before = data_sent(star)[0, 1]
        group.command(command, Timed, "timing", 60)
        return data_sent(star)[0, 1] - before
