"""Worker groups of small scripts, one a rank, in place of a framework's workers."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ddlbench.launch.control_socket import unix_socket
from ddlbench.launch.fork_starter import ForkServer
from ddlbench.launch.group_member import Launch
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.network.hosts import Host
from ddlbench.protocol.messages import FROM_MEMBER, Hello
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.system.package import package_root
from tests.support.assignments import assignment

HELLO = """
import os, resource, signal, sys, threading, time
from ddlbench.protocol.messages import *
from ddlbench.workers.common.control import Control
control = Control(address, rank)
assignment = control.assignment()
"""
# What the fork server imports: each rank has a script of its own.
WORKER = """
def main(address, rank):
    exec(SCRIPTS[rank], {"address": address, "rank": rank})
"""
READY = HELLO + 'control.send(Ready({"rank": str(assignment.rank)}))\n'
ANSWER = (
    READY
    + """
while not isinstance(command := control.command(), Stop):
    match command:
        case Connect():
            control.send(Connected())
        case Prepare():
            control.send(Prepared(fits=True))
        case Train(steps):
            control.send(Trained([[float(rank)] * steps]))
        case Conclude():
            control.send(Concluded(f"parameters of {rank}"))
"""
)
# A busy machine may put a process aside for seconds: what is not the subject of a test gives it a minute.
LIMITS = {"launch_s": 300.0, "prepare_s": 300.0, "step_s": 300.0, "heartbeat_s": 300.0}


@pytest.fixture
def group(tmp_path: Path) -> Callable[..., WorkerGroup]:
    """Start a group of such scripts, one a rank."""

    def start(
        *scripts: str,
        memory_bytes: int = 2**34,
        check: Callable[[], None] = lambda: None,
        **limits: float,
    ) -> WorkerGroup:
        core = min(os.sched_getaffinity(0))
        (tmp_path / "scripted.py").write_text(f"SCRIPTS = {list(scripts)!r}\n{WORKER}")
        launches = [
            Launch(
                Host(f"h{rank + 1}", "127.0.0.1", (core,), 1, memory_bytes),
                None,
                tmp_path / f"logs/rank{rank}.log",
                variables={"CUDA_VISIBLE_DEVICES": f"GPU-{rank}"},
            )
            for rank in range(len(scripts))
        ]
        assignments = [assignment(rank, len(scripts)) for rank in range(len(scripts))]
        argv = [sys.executable, "-m", "ddlbench.workers.common.fork_server", "scripted"]
        variables = {"PYTHONPATH": f"{package_root()}:{tmp_path}"}
        with ForkServer(argv, variables, log=tmp_path / "logs/fork_server.log") as server:
            return WorkerGroup(
                server,
                launches,
                assignments,
                control=unix_socket(tmp_path / "control", greetings=(Hello,), kinds=FROM_MEMBER),
                timeouts=Timeouts(**LIMITS | limits),
                check=check,
            )

    return start
