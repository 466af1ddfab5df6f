"""How `ddlbench emulate` ends: a signal before the command runs, a reader that has gone, a signal without a name."""

import os
import signal

import pytest

from ddlbench.emulate import run, supervisor
from ddlbench.emulate.emulation import Emulation
from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import Host
from ddlbench.network.link import Link
from ddlbench.network.traffic import FULL

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
