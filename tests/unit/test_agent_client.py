"""A node as the driver sees it: its agent answers, or the node counts as lost."""

import socket

import pytest

from ddlbench.cluster.agent_client import Node, NodeLost, RemoteProcess
from ddlbench.protocol.agent_messages import AgentHello, Done, Started
from ddlbench.protocol.channel import LineChannel

HELLO = AgentHello(index=0, node="n1", interface="eth0", address="10.0.0.1", cores=[0], port=30000, facts={})


def test_a_node_whose_agent_does_not_answer_is_lost_and_nobody_waits_for_its_members():
    here, there = socket.socketpair()
    with here, there:
        node = Node(HELLO, LineChannel(here, kinds=[Done, Started]))
        member = RemoteProcess(node, 17)
        assert member.poll() is None
        with pytest.raises(NodeLost, match="n1 has not answered for 0 s"):
            node.reply(Done, limit_s=0.0)
        assert member.wait() == -9
