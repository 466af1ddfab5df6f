"""Worker groups on emulated hosts."""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from threading import Timer
from typing import Any

import psutil

from ddlbench.environments.materials import BARE
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.errors import DdlbenchError
from ddlbench.hosts.group_on_hosts import GroupOnHosts, launched
from ddlbench.launch.gpus import gpus_here
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.roles import members, worker_of
from ddlbench.network.hosts import Host, Placement
from ddlbench.network.link import Link
from ddlbench.network.sites import SharedCards
from ddlbench.plan.catalogue import STRATEGIES
from ddlbench.protocol.codec import read
from ddlbench.protocol.messages import (
    Concluded,
    ModelShape,
    TimeCollective,
    Timed,
    Trained,
    TrainingPoint,
)
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.system.gpu_shares import share_out
from inside.star import data_sent

DIGITS = [28, 28, 1]
POINT = {"dataset": "digits", "image_shape": DIGITS, "learning_rate": 0.05, "momentum": 0.9}
LIMITS = Timeouts(launch_s=600, prepare_s=600, step_s=300, heartbeat_s=300)


def trainings(
    python: str,
    datasets: dict[str, str],
    workers: int,
    points: list[dict[str, Any]],
    memory_gb: float = 4,
    core_share: float = 1.0,
    framework: str = "torch",
    strategy: str = "ring_allreduce",
    devices: str = "cpu",
    fabric: str = "loopback",
    replayed: bool = False,
    workers_per_host: int = 1,
) -> list[dict[str, Any]]:
    """Train each point for ten steps with the real workers of one group; what each member reports."""
    job = _job(
        python, framework, strategy, workers, memory_gb=memory_gb, core_share=core_share, replayed=replayed
    )
    job = replace(job, workers_per_host=workers_per_host)
    shares = share_out(gpus_here(), workers) if devices == "gpu" else ()
    job = replace(
        job,
        placement=replace(job.placement, gpus=shares),
        devices=devices,
        fabric=fabric,
        datasets=datasets,
    )
    answers = []
    with launched(job) as on_hosts:
        group = on_hosts.group
        group.connect([ModelShape(*key) for key in sorted({_point(given).key for given in points})])
        for given in points:
            fits = [reply.fits for reply in group.prepare(_point(given), given["seed"])]
            ranks = []
            if all(fits):
                processes = [psutil.Process(pid) for pid in group.pids()]
                before_s, began = [_computed_s(each) for each in processes], time.monotonic()
                with on_hosts.fillers.running():
                    trained = group.train(given.get("steps", 10), from_fresh=True)
                computed_s = [
                    _computed_s(each) - then for each, then in zip(processes, before_s, strict=True)
                ]
                took_s = time.monotonic() - began
                concluded = group.conclude(evaluate=True, save_to=given.get("save_to"))
                ranks = [
                    _reported(*each) | {"computed_s": seconds, "took_s": took_s}
                    for *each, seconds in zip(trained, concluded, computed_s, strict=True)
                ]
            answers.append({"fits": fits, "ranks": ranks})
    return answers


def _computed_s(process: psutil.Process) -> float:
    """What a process and its threads have had of the processors."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _point(given: Mapping[str, Any]) -> TrainingPoint:
    """A point of a test: what it does not say is as in POINT."""
    known = {field.name for field in fields(TrainingPoint)}
    return read(TrainingPoint, POINT | {key: value for key, value in given.items() if key in known})


def _reported(trained: Trained, concluded: Concluded) -> dict[str, Any]:
    """What a member says of its training, in one table, without what it does not say."""
    test = {f"test_{name}": value for name, value in asdict(concluded.test).items()} if concluded.test else {}
    said = {**asdict(trained), "parameters_sha256": concluded.parameters_sha256, **test}
    return {name: value for name, value in said.items() if value is not None}


def death(
    python: str,
    datasets: dict[str, str],
    framework: str,
    strategy: str,
    workers: int,
    point: dict[str, Any],
    killed: int,
    replayed: bool = False,
) -> str:
    """What is told of a training in which a worker is killed, once all others are in the middle of a step."""
    job = replace(_job(python, framework, strategy, workers, replayed=replayed), datasets=datasets)
    with launched(job) as on_hosts:
        group = on_hosts.group
        group.connect([ModelShape(*_point(point).key)])
        group.prepare(_point(point), point["seed"])
        group.train(1, from_fresh=True)
        Timer(0.5, os.kill, (group.pids()[killed], signal.SIGKILL)).start()
        try:
            group.train(1000)
            return "nothing"
        except DdlbenchError as error:
            return str(error)


def refusal(python: str, framework: str, strategy: str) -> str:
    """What is told of workers that are to compute on GPUs, and cannot."""
    job = replace(_job(python, framework, strategy, 2), devices="gpu", fabric="loopback")
    try:
        with launched(job):
            return "nothing"
    except DdlbenchError as error:
        return str(error)


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
    job = _job(python, framework, strategy, workers, servers=servers, replayed=replayed)
    with launched(replace(job, datasets=datasets)) as on_hosts:
        group, star = on_hosts.group, on_hosts.hosts.star
        assert star is not None
        star.shape(Link(1000))
        group.connect([ModelShape(*_point(point).key)])
        group.prepare(_point(point), point["seed"])
        moved = _data_of_a_step(on_hosts, steps)
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
    replayed: bool = False,
) -> list[float]:
    """The times in ms that workers tell of steps, by commands of one step each; a server has a host of its own."""
    servers = STRATEGIES[strategy].servers
    job = _job(python, framework, strategy, workers, servers=servers, replayed=replayed)
    with launched(replace(job, datasets=datasets)) as on_hosts:
        group, star = on_hosts.group, on_hosts.hosts.star
        assert star is not None
        group.connect([ModelShape(*_point(point).key)])
        group.prepare(_point(point), point["seed"])
        star.shape(Link(bandwidth_mbit))
        trained = [group.train(1, from_fresh=not time) for time in range(times)]
    return [
        time_ms for replies in trained for reply in replies for of in reply.step_times_ms for time_ms in of
    ]


def bytes_through_cards(
    python: str, strategy: str, point: dict[str, Any], workers: int, workers_per_host: int, framework: str
) -> dict[str, list[float]]:
    """What each worker sends in a replayed step, and what each host's card lets out, in bytes of TCP's data."""
    job = _job(python, framework, strategy, workers, replayed=True)
    cards = tuple(rank // workers_per_host for rank in range(workers))
    job = replace(job, workers_per_host=workers_per_host, placement=replace(job.placement, cards=cards))
    with launched(job) as on_hosts:
        group, star = on_hosts.group, on_hosts.hosts.star
        assert star is not None
        group.connect([ModelShape(*_point(point).key)])
        star.shape(SharedCards(card=Link(1000), inside=Link(4000)))
        group.prepare(_point(point), point["seed"])
        moved = _data_of_a_step(on_hosts, steps=4)
    return {
        "inside": [
            sum(moved[rank, other] for other in range(workers) if other != rank) for rank in range(workers)
        ],
        "cards": [
            sum(sent for (rank, other), sent in moved.items() if cards[rank] == card != cards[other])
            for card in dict.fromkeys(cards)
        ],
    }


def _data_of_a_step(on_hosts: GroupOnHosts, steps: int) -> dict[tuple[int, int], float]:
    """What each host sends each other one in a step, without what surrounds the steps."""
    group, star = on_hosts.group, on_hosts.hosts.star
    assert star is not None
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
    job = replace(_job(python, "torch", "ring_allreduce", 2), worker="torch_collectives")
    with launched(job) as on_hosts:
        group, star = on_hosts.group, on_hosts.hosts.star
        assert star is not None
        group.command(command, Timed, "connecting", 60)
        before = data_sent(star)[0, 1]
        group.command(command, Timed, "timing", 60)
        return data_sent(star)[0, 1] - before


def members_in_containers(
    runtime: str, environments: dict[str, Any], memory_gb: float
) -> list[dict[str, str]]:
    """What the kernel says of the two members of a group in a runtime: capabilities, limits, network, mounts."""
    job = replace(
        _job("", "torch", "ring_allreduce", 2, memory_gb=memory_gb),
        runtime=runtime,
        environments={
            name: read(RuntimeEnvironment, described, ignore_unknown=True)
            for name, described in environments.items()
        },
    )
    with launched(job) as on_hosts:
        star = on_hosts.hosts.star
        assert star is not None
        return [
            {
                **_facts(pid),
                "shares_network": str(
                    os.readlink(f"/proc/{pid}/ns/net") == os.readlink(f"/proc/self/fd/{namespace}")
                ),
            }
            for pid, namespace in zip(on_hosts.group.pids(), star.namespaces, strict=True)
        ]


def _facts(pid: int) -> dict[str, str]:
    """What stands in a process's status, its limit of data in bytes, and the folders that it can write."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    (data,) = (
        line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "Max data size" in line
    )
    mounts = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    return {
        **{name: value.strip() for name, _, value in (line.partition(":") for line in status)},
        "data_bytes": data.split()[3],
        "writable": " ".join(target for _, target, _, options, *_ in mounts if options.split(",")[0] == "rw"),
    }


def _job(
    python: str,
    framework: str,
    strategy: str,
    workers: int,
    *,
    servers: int = 0,
    memory_gb: float = 4,
    core_share: float = 1.0,
    replayed: bool = False,
) -> GroupJob:
    """A group on hosts that have all cores in turn, over emulated links."""
    cores = sorted(os.sched_getaffinity(0))
    group = members(framework, strategy, workers, workers + servers)
    hosts = [
        Host(f"h{i}", f"10.66.0.{i}", (cores[i % len(cores)],), 1, int(memory_gb * 2**30), core_share)
        for i in range(1, max(member.host for member in group) + 2)
    ]
    return GroupJob(
        run="a-test",
        worker=worker_of(framework, strategy, replayed=replayed),
        strategy=strategy,
        fabric="emulated",
        placement=Placement(tuple(hosts), 1.0, memory_reduced=False),
        members=group,
        environments={BARE: RuntimeEnvironment(python)},
        timeouts=LIMITS,
        inherited=dict(os.environ),
        logs=str(Path.cwd()),
    )
