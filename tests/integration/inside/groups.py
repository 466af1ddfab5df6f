"""Worker groups on emulated hosts."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.hosts.launch import launched
from ddlbench.launch.gpus import gpus_here
from ddlbench.launch.roles import Member, members, worker_of
from ddlbench.launch.worker_group import Timeouts
from ddlbench.network.hosts import Host
from ddlbench.network.link import Link
from ddlbench.system.gpu_shares import share_out
from inside.star import carried

DIGITS = [28, 28, 1]
POINT = {"dataset": "digits", "image_shape": DIGITS, "learning_rate": 0.05, "momentum": 0.9}
LIMITS = Timeouts(launch_s=120, prepare_s=120, step_s=60, heartbeat_s=60)


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
) -> list[dict[str, Any]]:
    """Train each point for ten steps with the real workers of one group; what each member reports."""
    told = {"datasets": datasets, "strategy": strategy}
    job = _job(python, members(framework, strategy, workers, workers), memory_gb, core_share)
    shares = share_out(gpus_here(), workers) if devices == "gpu" else ()
    job["placement"]["gpus"] = [asdict(share) for share in shares]
    job |= {"devices": devices, "fabric": fabric}
    answers = []
    with launched(job, worker_of(framework, strategy), told) as crew:
        models = {(point["model"], tuple(point.get("image_shape", DIGITS))) for point in points}
        crew.group.connect([(model, list(shape)) for model, shape in sorted(models)])
        for given in points:
            point = POINT | given
            fits = [rank["fits"] for rank in crew.group.prepare(point, given["seed"])]
            ranks = []
            if all(fits):
                trained = crew.group.train(given.get("steps", 10), from_fresh=True)
                concluded = crew.group.conclude(evaluate=True, save_to=given.get("save_to"))
                ranks = [one | other for one, other in zip(trained, concluded, strict=True)]
            answers.append({"fits": fits, "ranks": ranks})
    return answers


def refusal(python: str, framework: str, strategy: str) -> str:
    """What is told of workers that are to compute on GPUs, and cannot."""
    job = _job(python, members(framework, strategy, 2, 2)) | {"devices": "gpu", "fabric": "loopback"}
    told = {"datasets": {}, "strategy": strategy}
    try:
        with launched(job, worker_of(framework, strategy), told):
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
) -> dict[str, list[float]]:
    """What each host sends and receives in a step, on links that lose nothing; servers have a host of their own."""
    job = _job(python, members(framework, strategy, workers, workers + servers))
    told = {"datasets": datasets, "strategy": strategy}
    with launched(job, worker_of(framework, strategy), told) as crew:
        assert crew.star is not None
        crew.star.shape(Link(1000))
        crew.group.connect([(point["model"], point.get("image_shape", DIGITS))])
        crew.group.prepare(POINT | point, point["seed"])
        found = []
        for trained in (3, 3 + steps):  # the difference is of steps alone, not of what surrounds them
            before = carried(crew.star)
            crew.group.train(trained, from_fresh=True)
            found.append([after - each for each, after in zip(before, carried(crew.star), strict=True)])
    of_steps = [(more - less) / steps for less, more in zip(*found, strict=True)]
    return {"sent": of_steps[::2], "received": of_steps[1::2]}


def sent_bytes(python: str, collective: str) -> int:
    """What one collective of 4 MB makes the first host of two send."""
    command = {"do": "time", "collective": collective, "elements": 1 << 20, "times": 1}
    job = _job(python, members("torch", "ring_allreduce", 2, 2))
    with launched(job, "torch_collectives", {}) as crew:
        assert crew.star is not None
        crew.group.command(command, "timed", "connecting", 60)
        before = carried(crew.star)[0]
        crew.group.command(command, "timed", "timing", 60)
        return carried(crew.star)[0] - before


def members_in_containers(
    runtime: str, environments: dict[str, Any], memory_gb: float
) -> list[dict[str, str]]:
    """What the kernel says of the two members of a group in a runtime: capabilities, limits, network, mounts."""
    job = _job("", members("torch", "ring_allreduce", 2, 2), memory_gb)
    job |= {"run": "a-test", "runtime": runtime, "environments": environments, "readable": []}
    told = {"datasets": {}, "strategy": "ring_allreduce"}
    with launched(job, "torch", told) as crew:
        assert crew.star is not None
        return [
            {
                **_facts(pid),
                "shares_network": str(
                    os.readlink(f"/proc/{pid}/ns/net") == os.readlink(f"/proc/self/fd/{namespace}")
                ),
            }
            for pid, namespace in zip(crew.group.pids(), crew.star.namespaces, strict=True)
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
    python: str, group: Sequence[Member], memory_gb: float = 4, core_share: float = 1.0
) -> dict[str, Any]:
    """What launches a group on hosts that have all cores in turn, over emulated links."""
    cores = sorted(os.sched_getaffinity(0))
    hosts = [
        Host(f"h{i}", f"10.66.0.{i}", (cores[i % len(cores)],), 1, int(memory_gb * 2**30), core_share)
        for i in range(1, max(member.host for member in group) + 2)
    ]
    return {
        "python": python,
        "fabric": "emulated",
        "interfaces": {},
        "sites": 1,
        "congestion_control": "cubic",
        "placement": {"hosts": [asdict(host) for host in hosts], "dilation": 1.0},
        "members": [asdict(member) for member in group],
        "devices": "cpu",
        "timeouts": asdict(LIMITS),
        "inherited": dict(os.environ),
        "logs": str(Path.cwd()),
    }
