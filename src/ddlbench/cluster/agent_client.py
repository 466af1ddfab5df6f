"""One node as the supervisor sees it: the connection to the node agent there, and the processes that it has started."""

import subprocess
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from time import monotonic
from typing import TypeVar

from ddlbench.errors import DdlbenchError
from ddlbench.protocol.agent_messages import (
    AgentHello,
    AgentReply,
    BeginSteps,
    Done,
    EndSteps,
    Failed,
    KillMember,
    MemberEnded,
    Sampled,
    ToAgent,
    Unwatch,
)
from ddlbench.protocol.channel import Closed, LineChannel
from ddlbench.protocol.fork_messages import Started

R = TypeVar("R", Started, Sampled, Done)
_POLL_S = 0.2
_ANSWER_S = 60.0


class NodeLost(DdlbenchError):
    """A node, or the whole allocation, is gone: nothing can be measured there any more."""


class RemoteProcess:
    """A member's process on a node."""

    def __init__(self, node: "Node", pid: int) -> None:
        self.pid = pid
        self._node = node

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs. On a lost node it is -9 (SIGKILL)."""
        self._node.read(0.0)
        return self._node.ended.get(self.pid, -9 if self._node.is_lost else None)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until it has ended.

        Args:
            timeout_s: how long to wait, in s; None: without a limit.

        Returns:
            Its exit status, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout_s`.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while (status := self.poll()) is None:
            if deadline is not None and monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"{self.pid} on {self._node.name}", timeout_s or 0.0)
            self._node.read(_POLL_S)
        return status

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""
        if self.poll() is None:
            with suppress(NodeLost):
                self._node.ask(KillMember(self.pid), Done)


class Node:
    """One node, and the connection to the node agent there.

    Attributes:
        hello: how the agent described its node.
        ended: exit statuses of members that have ended, by process id.
        is_lost: the agent is gone.
    """

    def __init__(self, hello: AgentHello, channel: LineChannel[object]) -> None:
        self.name = hello.node
        self.hello = hello
        self.ended: dict[int, int] = {}
        self.is_lost = False
        self._replies: deque[AgentReply] = deque()
        self._channel = channel

    def send(self, message: ToAgent) -> None:
        """Send a message without waiting for the reply, which `reply` returns.

        Args:
            message: what the agent is to do; if the connection is broken, the node counts as lost.
        """
        try:
            self._channel.send(message)
        except OSError:
            self.is_lost = True

    def reply(self, kind: type[R], limit_s: float = _ANSWER_S) -> R:
        """Wait for the reply to the last message.

        Args:
            kind: the class of the reply.
            limit_s: how long it may take, in s.

        Returns:
            The reply.

        Raises:
            DdlbenchError: the agent could not do it; the text is the agent's.
            NodeLost: the node is gone, has not replied in time, or has replied with another class.
        """
        deadline = monotonic() + limit_s
        while not self._replies:
            self.read(_POLL_S)
            if not self._replies and (self.is_lost or monotonic() > deadline):
                why = "has gone" if self.is_lost else f"has not answered for {limit_s:.0f} s"
                self.is_lost = True  # so that nobody waits for the end of its members
                raise NodeLost(f"node {self.name} {why}")
        reply = self._replies.popleft()
        if isinstance(reply, Failed):
            raise DdlbenchError(f"node {self.name}: {reply.why}")
        if not isinstance(reply, kind):
            raise NodeLost(f"node {self.name} has replied with {reply}, where a {kind.__name__} was due")
        return reply

    def ask(self, message: ToAgent, kind: type[R], limit_s: float = _ANSWER_S) -> R:
        """Send a message and wait for its reply.

        Args:
            message: what the agent is to do.
            kind: the class of the reply.
            limit_s: how long it may take, in s.

        Returns:
            The reply.

        Raises:
            DdlbenchError: the agent could not do it; the text is the agent's.
            NodeLost: as `reply`.
        """
        self.send(message)
        return self.reply(kind, limit_s)

    def read(self, limit_s: float) -> None:
        """Process the messages that arrive from the agent.

        Args:
            limit_s: how long to wait for a message, in s; 0: take only those that have arrived.
        """
        if self.is_lost:
            return
        try:
            messages = self._channel.arrived(limit_s)
        except Closed:
            self.is_lost = True
            return
        for message in messages:
            if isinstance(message, MemberEnded):
                self.ended[message.pid] = message.status
            elif isinstance(message, Started | Sampled | Done | Failed):
                if isinstance(message, Started):  # perhaps with the number of one that has ended
                    self.ended.pop(message.pid, None)
                self._replies.append(message)

    def close(self) -> None:
        """Close the connection; the agent then ends all that it has started."""
        self._channel.close()


class NodesTelemetry:
    """The samplers of all nodes, with the interface of `Telemetry`."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self.costs: Mapping[str, object] = {}  # by node, once it has ended

    def begin(self, point: str, repetition: int) -> None:
        """Mark that the timed steps of a repetition begin.

        Args:
            point: the name of the point whose steps are timed; samples are labelled with it.
            repetition: its number.
        """
        ask_all(self._nodes, BeginSteps(point, repetition), Done)

    def end(self, steps: float) -> Sampled:
        """Mark that the timed steps have ended.

        Args:
            steps: how many a worker has made on average.

        Returns:
            The telemetry files of all nodes, first begin and last end in s (of the supervisor), each host's counts.
        """
        ends = ask_all(self._nodes, EndSteps(steps), Sampled)
        return Sampled(
            [file for end in ends for file in end.files],
            min(end.begin_s for end in ends),
            max(end.end_s for end in ends),
            {host: found for end in ends for host, found in end.hosts.items()},
        )

    def close(self) -> None:
        """Let the samplers write what is left, and end."""
        ends = ask_all(self._nodes, Unwatch(), Done)
        self.costs = {
            node.name: asdict(end.costs) for node, end in zip(self._nodes, ends, strict=True) if end.costs
        }


def ask_all(nodes: Iterable[Node], message: ToAgent, kind: type[R]) -> list[R]:
    """Send a message to all nodes, then wait for all replies: the nodes work at the same time.

    Args:
        nodes: the receivers.
        message: what each agent is to do.
        kind: the class of the replies.

    Returns:
        The replies, in the order of `nodes`.

    Raises:
        DdlbenchError: an agent could not do it.
        NodeLost: a node is gone, or has not replied in time.
    """
    nodes = list(nodes)
    for node in nodes:
        node.send(message)
    return [node.reply(kind) for node in nodes]
