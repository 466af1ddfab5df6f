"""The fork server of a worker group: what it says when a worker cannot start, and what is no answer of its."""

import os
import sys
import time
from dataclasses import replace

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.launch.fork_starter import ForkServer
from ddlbench.protocol.fork_messages import StartFiller, StartMember
from ddlbench.system.package import package_root

PATIENCE_S = 800.0  # with a busy machine
MEMBER = StartMember(
    rank=0,
    control="",
    host="h1",
    namespace=None,
    cores=[0],
    memory_bytes=2**30,
    short_slice=False,
    variables={},
    log="log",
)


def test_a_framework_that_cannot_be_imported_is_told_with_the_reason(tmp_path):
    argv = [sys.executable, "-m", "ddlbench.workers.common.fork_server", "no_such_framework"]
    told = r"rank 0 could not be started \(status 1\)[^$]*no_such_framework"
    server = ForkServer(argv, {"PYTHONPATH": package_root()}, log=tmp_path / "log")
    with server, pytest.raises(DdlbenchError, match=told):
        server.start(MEMBER, time.monotonic() + PATIENCE_S)


def test_what_an_earlier_server_said_is_not_this_ones_reason(tmp_path):
    (tmp_path / "log").write_text("the reason of another day\n")
    argv = ["sh", "-c", "echo this one >&2; exit 3"]
    told = r"could not be started \(status 3\)\n    this one$"
    with ForkServer(argv, {}, log=tmp_path / "log") as server, pytest.raises(DdlbenchError, match=told):
        server.start(MEMBER, time.monotonic() + PATIENCE_S)


def test_an_interpreter_that_is_gone_is_told_with_what_to_do(tmp_path):
    gone = str(tmp_path / "environment/bin/python")
    with pytest.raises(DdlbenchError, match=rf"{gone}.*No such file.*remove the environment's folder"):
        ForkServer([gone, "-m", "ddlbench.workers.common.fork_server"], {}, log=tmp_path / "log")


def test_a_framework_that_takes_too_long_to_import_is_not_waited_for(tmp_path):
    (tmp_path / "endless.py").write_text("import time; time.sleep(3600)")
    argv = [sys.executable, "-m", "ddlbench.workers.common.fork_server", "endless"]
    variables = {"PYTHONPATH": f"{package_root()}:{tmp_path}"}
    server = ForkServer(argv, variables, log=tmp_path / "log")
    with server, pytest.raises(DdlbenchError, match="took too long while starting"):
        server.start(MEMBER, time.monotonic() + 0.5)


def test_a_framework_that_prints_while_it_is_imported_is_in_nobodys_way(tmp_path):
    (tmp_path / "greeting.py").write_text(
        "import os\nprint('hello')\nos.system('echo == CUDA ==')\ndef main(*_): ..."
    )
    argv = [sys.executable, "-m", "ddlbench.workers.common.fork_server", "greeting"]
    variables = {"PYTHONPATH": f"{package_root()}:{tmp_path}"}
    member = replace(MEMBER, cores=sorted(os.sched_getaffinity(0)), log=str(tmp_path / "rank0.log"))
    with ForkServer(argv, variables, log=tmp_path / "log") as server:
        assert server.start(member, time.monotonic() + PATIENCE_S).wait(PATIENCE_S) == 0
    assert sorted((tmp_path / "log").read_text().splitlines()) == ["== CUDA ==", "hello"]


def test_the_end_of_a_server_is_seen_although_what_fills_a_host_goes_on(tmp_path):
    (tmp_path / "nothing.py").write_text("def main(*_): ...")
    argv = [sys.executable, "-m", "ddlbench.workers.common.fork_server", "nothing"]
    variables = {"PYTHONPATH": f"{package_root()}:{tmp_path}"}
    core = min(os.sched_getaffinity(0))
    with ForkServer(argv, variables, log=tmp_path / "log") as server:
        filler = server.start(StartFiller(host="h1", core=core), time.monotonic() + PATIENCE_S)
        try:
            server._process.kill()
            with pytest.raises(DdlbenchError, match=r"rank 0 could not be started \(SIGKILL\)"):
                server.start(replace(MEMBER, cores=[core]), time.monotonic() + PATIENCE_S)
        finally:
            filler.kill()
            filler.wait(PATIENCE_S)


def test_what_prints_in_place_of_the_servers_answers_is_quoted(tmp_path):
    argv = ["sh", "-c", "echo == CUDA ==; exec sleep 3600"]
    told = r"rank 0 could not be started: something printed .*== CUDA =="
    with ForkServer(argv, {}, log=tmp_path / "log") as server, pytest.raises(DdlbenchError, match=told):
        server.start(MEMBER, time.monotonic() + PATIENCE_S)
