"""Hosts that share a core: what divides it, and what each gets."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from ddlbench.launch.fork_starter import ForkServer
from ddlbench.network.hosts import place
from ddlbench.protocol.fork_messages import StartSpinner
from ddlbench.shares.bursts import burst_percent
from ddlbench.shares.division import Division
from ddlbench.shares.fillers import Fillers
from ddlbench.telemetry.waiting import Waiting

FORK_SERVER = [sys.executable, "-m", "ddlbench.workers.common.fork_server", "ddlbench.emulate.member"]
SPINNERS, LOOK_S, STARTED_S = 3, 0.5, 60.0


def shared(dilation: float, mount_cgroups: bool = False) -> dict[str, Any]:
    """What divides a core between two hosts, what bursts get, and what one host of three busy processes gets.

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
        first, second = [*(each.pid for each in busy), *fillers.pids("h1")], fillers.pids("h2")
        with fillers.running():
            waiting = Waiting([*first, *second])
            sleep(LOOK_S)
            ran_ms = [each["ran_ms"] for each in waiting.since_start()]
        for each in busy:
            each.kill()
            each.wait()
    return {
        "between": division.between,
        "burst_percent": bursts,
        "busy_ms": sum(ran_ms[: len(first)]),
        "idle_ms": sum(ran_ms[len(first) :]),
        "log": Path("log").read_text(),
    }


def _enter_own_group() -> None:
    folder = Path("/sys/fs/cgroup")
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", folder], check=True)
    (folder / "cgroup.subtree_control").write_text("+cpu")
    own = folder / "own"
    own.mkdir(exist_ok=True)
    (own / "cgroup.procs").write_text("0")
