"""Worker groups on emulated hosts."""

import os
import signal
from dataclasses import asdict, replace
from pathlib import Path
from threading import Timer
from typing import Any

import psutil

from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.errors import DdlbenchError
from ddlbench.hosts.group_on_hosts import GroupOnHosts, launched
from ddlbench.launch.gpus import gpus_here
from ddlbench.protocol.codec import read
from ddlbench.protocol.messages import (
    Concluded,
    ModelShape,
    Trained,
)
from ddlbench.system.gpu_shares import share_out
from inside.group_jobs import group_job, training_point
from inside.parts import part_of_core, part_of_filler


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
    job = group_job(
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
        group.connect([ModelShape(*key) for key in sorted({training_point(given).key for given in points})])
        for given in points:
            fits = [reply.fits for reply in group.prepare(training_point(given), given["seed"])]
            ranks, parts = [], {}
            if all(fits):
                processes = [psutil.Process(pid) for pid in group.pids()]
                before_s = [_computed_s(each) for each in processes]
                with on_hosts.fillers.running():
                    parts = _parts(on_hosts)
                    trained = group.train(given.get("steps", 10), from_fresh=True)
                computed_s = [
                    _computed_s(each) - then for each, then in zip(processes, before_s, strict=True)
                ]
                concluded = group.conclude(evaluate=True, save_to=given.get("save_to"))
                ranks = [
                    _reported(*each) | {"computed_s": seconds}
                    for *each, seconds in zip(trained, concluded, computed_s, strict=True)
                ]
            answers.append({"fits": fits, "ranks": ranks, "parts": parts})
    return answers


def _parts(on_hosts: GroupOnHosts) -> dict[str, list[str]]:
    """The part of its core that each member is in, and each filler, which must run."""
    fillers = [process.pid for _, process in on_hosts.fillers._processes]
    return {
        "members": [part_of_core(pid) for pid in on_hosts.group.pids()],
        "fillers": sorted(part_of_filler(pid) for pid in fillers),
    }


def _computed_s(process: psutil.Process) -> float:
    """What a process and its threads have had of the processors."""
    times = process.cpu_times()
    return float(times.user + times.system)


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
    job = replace(group_job(python, framework, strategy, workers, replayed=replayed), datasets=datasets)
    with launched(job) as on_hosts:
        group = on_hosts.group
        group.connect([ModelShape(*training_point(point).key)])
        group.prepare(training_point(point), point["seed"])
        group.train(1, from_fresh=True)
        Timer(0.5, os.kill, (group.pids()[killed], signal.SIGKILL)).start()
        try:
            group.train(1000)
            return "nothing"
        except DdlbenchError as error:
            return str(error)


def refusal(python: str, framework: str, strategy: str) -> str:
    """What is told of workers that are to compute on GPUs, and cannot."""
    job = replace(group_job(python, framework, strategy, 2), devices="gpu", fabric="loopback")
    try:
        with launched(job):
            return "nothing"
    except DdlbenchError as error:
        return str(error)


def most_memory(
    python: str, datasets: dict[str, str], strategy: str, workers: int, point: dict[str, Any]
) -> list[int]:
    """Train a point for some steps with PyTorch's workers; the most that each had in memory until then, in bytes."""
    job = replace(group_job(python, "torch", strategy, workers), fabric="loopback", datasets=datasets)
    with launched(job) as on_hosts:
        group = on_hosts.group
        group.connect([ModelShape(*training_point(point).key)])
        assert all(reply.fits for reply in group.prepare(training_point(point), point["seed"]))
        group.train(1)
        group.train(3, from_fresh=True)
        group.conclude(evaluate=False)
        return [1024 * int(_facts(pid)["VmHWM"].split()[0]) for pid in group.pids()]


def members_in_containers(
    runtime: str, environments: dict[str, Any], memory_gb: float
) -> list[dict[str, str]]:
    """What the kernel says of the two members of a group in a runtime: capabilities, limits, network, mounts."""
    job = replace(
        group_job("", "torch", "ring_allreduce", 2, memory_gb=memory_gb),
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
