"""The agents of nodes: what they say when something fails, and what the driver knows of their members."""

import errno
import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddlbench.cluster import node_agent
from ddlbench.cluster.agent_client import Node, RemoteProcess
from ddlbench.protocol.agent_messages import AgentFailed, Done, Failed, KillMember, MemberEnded, Unwatch
from ddlbench.protocol.channel import LineChannel
from ddlbench.protocol.fork_messages import Started


def test_what_the_system_refuses_an_agent_is_told_to_the_driver_and_the_agent_goes_on():
    def carry_out(message):
        if isinstance(message, KillMember):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/logs/n1")
        return Done()

    here, there = socket.socketpair()
    driver = LineChannel(here, kinds=(Done, Failed))
    driver.send(KillMember(7))
    driver.send(Unwatch())
    here.shutdown(socket.SHUT_WR)
    agent = SimpleNamespace(carry_out=carry_out, ended=list)
    node_agent.serve(agent, LineChannel(there, kinds=node_agent.TO_AGENT))
    assert driver.receive(10) == Failed("[Errno 28] No space left on device: '/logs/n1'")
    assert driver.receive(10) == Done()
    driver.close()
    there.close()


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The driver's socket, to which an agent connects."""
    where = str(tmp_path / "control")
    monkeypatch.setenv(node_agent.CONTROL, where)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(where)
        opened.listen()
        yield opened


def test_an_agent_that_cannot_read_its_job_tells_the_driver(listening, tmp_path):
    assert node_agent.main(str(tmp_path / "group.json")) == 1
    driver = LineChannel(listening.accept()[0], kinds=(AgentFailed,))
    failed = driver.receive(10)
    assert failed.node == "n1"
    assert "group.json" in failed.why
    driver.close()


def test_an_error_of_the_system_does_not_pass_for_the_drivers_end(listening, tmp_path, monkeypatch):
    def ended():
        raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))

    agent = SimpleNamespace(introduction=lambda token: Done(), ended=ended)
    monkeypatch.setattr(node_agent, "NodeAgent", lambda job, stack: agent)
    monkeypatch.setattr(node_agent, "read_text", lambda kind, text: None)
    (tmp_path / "group.json").touch()
    with pytest.raises(ChildProcessError):
        node_agent.main(str(tmp_path / "group.json"))


def test_a_member_with_the_number_of_one_that_has_ended_runs():
    here, there = socket.socketpair()
    agent = LineChannel(there, kinds=(Done,))
    node = Node(SimpleNamespace(node="n1"), LineChannel(here, kinds=(Started, MemberEnded)))
    agent.send(MemberEnded(7, -9))
    assert RemoteProcess(node, 7).poll() == -9
    agent.send(Started(7))
    assert node.reply(Started).pid == 7
    assert RemoteProcess(node, 7).poll() is None
    agent.send(MemberEnded(7, 0))
    assert RemoteProcess(node, 7).poll() == 0
    agent.close()
    node.close()
