"""A worker group of real processes, which are small scripts here: how it starts, what it tells, what is left of it."""

import os
import socket
import sys
import time
from pathlib import Path

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import Host
from ddlbench.runtime.bare import package_root
from ddlbench.runtime.fork_server import ForkServer
from ddlbench.runtime.group import Launch, Timeouts, WorkerFailed, WorkerGroup

HELLO = """
import json, os, resource, signal, sys, threading, time
from ddlbench.workers.channel import Channel
channel = Channel(control, rank)
job = channel.receive()
"""
# What the fork server imports: each rank has a script of its own.
WORKER = """
def main(control, rank):
    exec(SCRIPTS[rank], {"control": control, "rank": rank})
"""
READY = HELLO + 'channel.send({"event": "ready", "job": job})\n'
ANSWER = (
    READY
    + """
answers = {"connect": "connected", "prepare": "prepared", "train": "trained", "conclude": "concluded"}
while (command := channel.receive())["do"] != "stop":
    channel.send({"event": answers[command["do"]], "rank": rank, "command": command})
"""
)
LIMITS = {"launch_s": 20.0, "prepare_s": 20.0, "step_s": 20.0, "heartbeat_s": 20.0}


@pytest.fixture
def group(tmp_path):
    """Start a group of such scripts, one a rank."""

    def start(*scripts: str, memory_bytes: int = 2**34, check=lambda: None, **limits: float) -> WorkerGroup:
        core = min(os.sched_getaffinity(0))
        (tmp_path / "scripted.py").write_text(f"SCRIPTS = {list(scripts)!r}\n{WORKER}")
        launches = [
            Launch(
                Host(f"h{rank + 1}", "127.0.0.1", (core,), 1, memory_bytes),
                None,
                tmp_path / f"logs/rank{rank}.log",
            )
            for rank in range(len(scripts))
        ]
        jobs = [{"rank": rank} for rank in range(len(scripts))]
        argv = [sys.executable, "-m", "ddlbench.workers.fork_server", "scripted"]
        variables = {"PYTHONPATH": f"{package_root()}:{tmp_path}"}
        with ForkServer(argv, variables, log=tmp_path / "logs/fork_server.log") as server:
            return WorkerGroup(
                server,
                launches,
                jobs,
                control=tmp_path / "control",
                timeouts=Timeouts(**LIMITS | limits),
                check=check,
            )

    return start


def are_gone(processes: list[int]) -> bool:
    return not any(Path(f"/proc/{process}").exists() for process in processes)


def test_every_rank_gets_its_own_job_and_answers_in_order_of_rank(group):
    with group(ANSWER, ANSWER, ANSWER) as three:
        assert [ready["job"]["rank"] for ready in three.ready] == [0, 1, 2]
        answers = three.train(7)
        assert [answer["rank"] for answer in answers] == [0, 1, 2]
        assert {answer["command"]["steps"] for answer in answers} == {7}


def test_nothing_is_left_of_a_group_that_is_done(group):
    with group(ANSWER, ANSWER) as two:
        processes = two.pids()
        assert not are_gone(processes)
    assert are_gone(processes)


def test_nothing_is_left_of_a_group_whose_user_failed(group):
    two = group(ANSWER, ANSWER)
    with pytest.raises(ZeroDivisionError), two:
        1 // 0  # noqa: B018
    assert are_gone(two.pids())


def test_a_worker_has_the_cores_the_memory_and_the_session_of_its_host(group):
    facts = """
channel.receive()
channel.send({"event": "built", "cores": list(os.sched_getaffinity(0)), "session": os.getsid(0) == os.getpid(),
              "memory": resource.getrlimit(resource.RLIMIT_DATA)})
channel.receive()
"""
    with group(READY + facts, memory_bytes=2**30) as one:
        (told,) = one._command({"do": "build"}, "built", "building", 20)
    assert told["cores"] == [min(os.sched_getaffinity(0))]
    assert told["memory"] == [2**30, 2**30]
    assert told["session"] is True


def test_a_worker_that_dies_at_once_is_named_with_the_end_of_its_log(group):
    with pytest.raises(WorkerFailed, match="rank 1 on host h2 died \\(status 3\\) while ") as caught:
        group(ANSWER, "import sys; print('this is why', flush=True); sys.exit(3)")
    assert str(caught.value).endswith("\n    this is why")


def train(group: WorkerGroup) -> None:
    with group:
        group.train(1)


@pytest.mark.parametrize(
    ("misfortune", "told", "limits"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", r"rank 1 on host h2 died \(SIGKILL\) while training", {}),
        (
            "os.kill(os.getpid(), signal.SIGSTOP)",
            r"rank 1 on host h2 has been silent for \d+ s while training",
            {"heartbeat_s": 1.5},
        ),
        ("time.sleep(600)", "took too long while training", {"prepare_s": 0.5, "step_s": 0.5}),
        (
            "raise ValueError(42)",
            r"rank 1 on host h2 died \(status 1\) while training[^$]*ValueError: 42",
            {},
        ),
    ],
    ids=["killed", "stopped", "hanging", "failing"],
)
def test_a_worker_that_fails_is_named_with_what_happened_and_nothing_is_left(group, misfortune, told, limits):
    two = group(ANSWER, f"{READY}channel.receive()\n{misfortune}", **limits)
    with pytest.raises(WorkerFailed, match=told):
        train(two)
    assert are_gone(two.pids())


def test_a_framework_that_cannot_be_imported_is_told_with_the_reason(tmp_path):
    argv = [sys.executable, "-m", "ddlbench.workers.fork_server", "no_such_framework"]
    told = r"rank 0 could not be started \(status 1\)[^$]*no_such_framework"
    server = ForkServer(argv, {"PYTHONPATH": package_root()}, log=tmp_path / "log")
    with server, pytest.raises(DdlbenchError, match=told):
        server.start({"rank": 0}, time.monotonic() + 20)


def test_a_framework_that_takes_too_long_to_import_is_not_waited_for(tmp_path):
    (tmp_path / "endless.py").write_text("import time; time.sleep(600)")
    argv = [sys.executable, "-m", "ddlbench.workers.fork_server", "endless"]
    variables = {"PYTHONPATH": f"{package_root()}:{tmp_path}"}
    server = ForkServer(argv, variables, log=tmp_path / "log")
    with server, pytest.raises(DdlbenchError, match="took too long while starting"):
        server.start({"rank": 0}, time.monotonic() + 0.5)


def test_a_worker_that_never_says_hello_is_too_late(group):
    with pytest.raises(WorkerFailed, match="took too long while starting"):
        group(ANSWER, "import time; time.sleep(600)", launch_s=2)


def test_what_the_links_need_is_looked_after_while_waiting(group):
    def check() -> None:
        raise WorkerFailed("the delay process died")

    with pytest.raises(WorkerFailed, match="the delay process died"):
        group(ANSWER, check=check)


def test_workers_end_when_their_supervisor_has_gone(group, tmp_path):
    two = group(ANSWER, ANSWER)
    processes = [member.process for member in two._members]
    for member in two._members:
        assert member.connection is not None
        member.connection.shutdown(socket.SHUT_RDWR)
    for process in processes:
        process.wait(20)
    two._kill()
