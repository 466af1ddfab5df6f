"""Hosts that share a core: what divides it, and what each process of a host is to the kernel."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.launch.bare import workers_environment
from ddlbench.launch.container_starter import Contained, Containers
from ddlbench.launch.fork_starter import ForkServer
from ddlbench.network.hosts import place
from ddlbench.network.star import Star
from ddlbench.protocol.codec import read
from ddlbench.protocol.fork_messages import StartSpinner
from ddlbench.sandbox.sandbox import outer_process
from ddlbench.shares.bursts import burst_percent
from ddlbench.shares.control_groups import own_group_here
from ddlbench.shares.core_division import Division
from ddlbench.shares.fillers import Fillers

FORK_SERVER = [sys.executable, "-m", "ddlbench.workers.common.fork_server", "ddlbench.emulate.member"]
SPINNERS, STARTED_S = 3, 60.0
WEIGHTS = ("cpu.shares", "cpu.weight")  # of the first and of the second version of control groups


def shared(dilation: float, mount_cgroups: bool = False) -> dict[str, Any]:
    """What divides a core between two hosts, one of which has three busy processes, and what their processes are.

    mount_cgroups: first mount the second version of control groups, and enter one that is ours.
    """
    if mount_cgroups:
        _enter_own_group()
    core = min(os.sched_getaffinity(0))
    hosts = place(
        2, vcpus=1, memory_gb=1, host_count=2, cores=[core], available_memory_bytes=8 << 30, dilation=dilation
    ).hosts
    deadline = monotonic() + STARTED_S
    with ExitStack() as stack:
        division = Division(stack.enter_context(ExitStack()), contained=False)
        server = stack.enter_context(ForkServer(FORK_SERVER, os.environ, log=Path("log")))
        starter = division.starter(server, hosts, deadline)
        fillers = stack.enter_context(Fillers(starter, hosts, deadline))
        bursts = burst_percent(starter, hosts, fillers, deadline)
        busy = [starter.start(StartSpinner(host="h1", core=core), deadline) for _ in range(SPINNERS)]
        with fillers.running():
            _wait_until_idle([pid for host in fillers.hosts for pid in fillers.pids(host)], deadline)
            found = {
                "between": division.between,
                "burst_percent": bursts,
                "core": core,
                "busy": [_process(each.pid) for each in busy],
                "fillers": {host: [_process(pid) for pid in fillers.pids(host)] for host in fillers.hosts},
                "weights": _weights(),
                "log": Path("log").read_text(),
            }
        for each in busy:
            each.kill()
            each.wait()
    return found


def in_docker(environments: dict[str, Any], python_folders: list[str], on_loopback: bool) -> dict[str, Any]:
    """In which control groups the processes of two hosts and of their idle neighbours are, all in Docker's containers.

    Each host has half of a core of its own where this machine has two, else they share one and have no neighbours.
    """
    hosts = place(
        2,
        vcpus=1,
        memory_gb=1,
        host_count=2,
        cores=sorted(os.sched_getaffinity(0))[:2],
        available_memory_bytes=8 << 30,
        dilation=2,
    ).hosts
    contained = Contained(
        "tests", python_folders, str(Path("logs").absolute()), gpus=False, inherited=os.environ
    )
    variables = workers_environment(os.environ, threads=1, interface="lo")
    environment = read(RuntimeEnvironment, environments["docker"], ignore_unknown=True)
    deadline = monotonic() + STARTED_S
    with ExitStack() as stack:
        namespaces: list[int | None] = [None, None]
        if not on_loopback:
            addresses = [host.address for host in hosts]
            namespaces = [*stack.enter_context(Star(addresses, congestion_control="cubic")).namespaces]
        starter = stack.enter_context(
            Containers(environment, FORK_SERVER, variables, hosts, namespaces, contained)
        )
        fillers = stack.enter_context(Fillers(starter, hosts, deadline))
        busy = {
            host.name: starter.start(StartSpinner(host=host.name, core=host.cores[0]), deadline)
            for host in hosts
        }
        found = {
            "hosts": {host: _process(each.pid)["control groups"] for host, each in busy.items()},
            "fillers": {
                host: [_process(pid)["control groups"] for pid in fillers.pids(host)]
                for host in fillers.hosts
            },
        }
        for each in busy.values():
            each.kill()
            each.wait()
    return found


def _wait_until_idle(pids: list[int], deadline: float) -> None:
    """A filler says that it is idle in its first turn, which a busy machine may give it late."""
    while monotonic() < deadline and any(os.sched_getscheduler(pid) != os.SCHED_IDLE for pid in pids):
        sleep(0.01)


def _process(pid: int) -> dict[str, Any]:
    """What decides how much of a core the kernel gives to a process."""
    autogroup = Path("/proc", str(pid), "autogroup")  # of its session
    return {
        "sessions": autogroup.read_text() if autogroup.exists() else None,
        "control groups": Path("/proc", str(pid), "cgroup").read_text(),
        "is_idle": os.sched_getscheduler(pid) == os.SCHED_IDLE,
        "cores": sorted(os.sched_getaffinity(pid)),
    }


def _weights() -> dict[str, str]:
    """How much the control group of each of our hosts weighs; those of other owners come and go."""
    parent = own_group_here()
    return {
        folder.name: (folder / name).read_text()
        for folder in (parent.glob(f"ddlbench-{outer_process()}-*") if parent else ())
        for name in WEIGHTS
        if (folder / name).exists()
    }


def _enter_own_group() -> None:
    folder = Path("/sys/fs/cgroup")
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", folder], check=True)
    (folder / "cgroup.subtree_control").write_text("+cpu")
    own = folder / "own"
    own.mkdir(exist_ok=True)
    (own / "cgroup.procs").write_text("0")
