"""How `ddlbench emulate` ends: a signal before the command runs, a reader that has gone, a signal without a name."""

import os
import signal
import subprocess
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout

import pytest

from ddlbench.emulate import commands, run, supervisor
from ddlbench.emulate.commands import Commands
from ddlbench.emulate.emulation import Emulation
from ddlbench.errors import DdlbenchError
from ddlbench.launch.fork_starter import Orphan
from ddlbench.network.hosts import Host
from ddlbench.network.link import Link
from ddlbench.network.traffic import FULL
from ddlbench.system.processes import describe_exit
from ddlbench.telemetry.counters import Counted

EMULATION = Emulation(
    command=["sh", "-c", "trap 'exit 0' TERM; while true; do echo line; sleep 0.01; done"],
    hosts=[Host("h1", "10.66.0.1", (0,), 1, 2**30)],
    dilation=1.0,
    link=Link(50, 1.0, 0.0),
    sites=None,
    grace_s=10.0,
    shown_bytes=10**6,
    unset=[],
)


@pytest.fixture
def signals():
    """Both ends of the pipe by which signals come."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_a_signal_that_comes_before_the_command_ends_the_emulation_without_measuring_on(signals, monkeypatch):
    measured = []
    monkeypatch.setattr(
        supervisor, "_measured_once", lambda *asked: measured.append(asked) or {"rate_mbit": 50}
    )
    reading, writing = signals
    assert supervisor.measured(None, EMULATION, FULL, reading) == {"rate_mbit": 50}
    os.write(writing, bytes([signal.SIGTERM]))
    with pytest.raises(supervisor.Interrupted, match="SIGTERM came before the command was started") as ended:
        supervisor.measured(None, EMULATION, FULL, reading)
    assert len(measured) == 1
    assert ended.value.exit_code == 143


def test_an_emulation_that_was_interrupted_before_the_command_has_the_exit_code_of_its_signal(monkeypatch):
    def interrupted(*_asked, **_more):
        os.kill(os.getpid(), signal.SIGTERM)
        raise DdlbenchError("the emulation failed")

    monkeypatch.setattr(run, "answer_of", interrupted)
    with pytest.raises(DdlbenchError, match="ended by SIGTERM") as ended:
        run.emulate(EMULATION)
    assert ended.value.exit_code == 143


class OneProcess:
    """The only process of a host, and the signals that it was sent."""

    pid = 0
    sent: list[int]

    def __init__(self, _namespace):
        OneProcess.sent = []

    def find(self):
        return []

    def signal(self, number):
        self.sent.append(number)
        if number != signal.SIGKILL:
            os.kill(OneProcess.pid, number)
        return []


class NoCounters:
    def __init__(self, _namespace):
        pass

    def read(self):
        return ""

    def close(self):
        pass


class Starting:
    def start(self, start, _deadline):
        with open(start.log, "w") as out:
            process = subprocess.Popen(EMULATION.command, stdout=out)
        OneProcess.pid = process.pid
        process.returncode = 0  # `Commands` waits for it
        return Orphan(process.pid)


@contextmanager
def nobody_reads():
    """Standard output and error are a pipe whose other end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed, redirect_stdout(closed), redirect_stderr(closed):
        yield
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)  # what is still to be written


def test_when_nobody_reads_output_or_errors_the_command_still_gets_sigterm_and_may_end_by_it(
    signals, monkeypatch
):
    monkeypatch.setattr(commands, "HostProcesses", OneProcess)
    monkeypatch.setattr(commands, "Counters", NoCounters)
    monkeypatch.setattr(commands, "parse", lambda text: Counted({}, *[0] * 7))
    with nobody_reads(), closing(Commands(EMULATION, [0], signals[0])) as running:
        (end,) = running.run(Starting())
    assert OneProcess.sent[0] == signal.SIGTERM
    assert end.was_ended
    assert end.status == 0
    assert running.signal == signal.SIGPIPE


def test_a_signal_without_a_name_is_told_by_its_number():
    assert describe_exit(-40) == "signal 40"
    assert describe_exit(-9) == "SIGKILL"
    assert describe_exit(3) == "status 3"
