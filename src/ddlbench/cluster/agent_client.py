"""One node as the driver has it: the process of ours that is there, and what it has started for us."""

import json
import selectors
import socket
import subprocess
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from ddlbench.errors import DdlbenchError

_POLL_S = 0.2
_ANSWER_S = 60.0

Message = dict[str, Any]


class NodeLost(DdlbenchError):
    """A node, or the whole allocation, has gone: nothing can be measured there any more."""


class RemoteProcess:
    """A member's process on a node."""

    def __init__(self, node: "Node", pid: int) -> None:
        self.pid = pid
        self._node = node

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs. On a lost node it was killed."""
        self._node.read(0.0)
        return self._node.ended.get(self.pid, -9 if self._node.is_lost else None)

    def wait(self, timeout_s: float | None = None) -> int:
        """Its exit status, once it has ended; subprocess.TimeoutExpired where that takes longer than `timeout_s`."""
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
                self._node.ask({"do": "kill", "pid": self.pid})


class Node:
    """One node: its process of ours at the other end of a connection, and what it has said."""

    def __init__(self, hello: Message, connection: socket.socket) -> None:
        self.name: str = hello["node"]
        self.hello = hello
        self.ended: dict[int, int] = {}  # pid -> exit status
        self.is_lost = False
        self._answers: deque[Message] = deque()
        self._connection = connection
        self._received = b""
        connection.settimeout(_ANSWER_S)

    def tell(self, message: Message) -> None:
        """Have it do something; its answer is the next that `answer` gives."""
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.is_lost = True

    def answer(self, limit_s: float = _ANSWER_S) -> Message:
        """Its answer to what it was told. Raises DdlbenchError with its words, NodeLost where there is none."""
        deadline = monotonic() + limit_s
        while not self._answers:
            self.read(_POLL_S)
            if not self._answers and (self.is_lost or monotonic() > deadline):
                why = "has gone" if self.is_lost else f"has not answered for {limit_s:.0f} s"
                raise NodeLost(f"node {self.name} {why}")
        answer = self._answers.popleft()
        if "error" in answer:
            raise DdlbenchError(f"node {self.name}: {answer['error']}")
        return answer

    def ask(self, message: Message, limit_s: float = _ANSWER_S) -> Message:
        """What it answers when it is told this."""
        self.tell(message)
        return self.answer(limit_s)

    def read(self, limit_s: float) -> None:
        """Take in what it says within `limit_s`."""
        if self.is_lost:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            if not selector.select(limit_s):
                return
        try:
            part = self._connection.recv(1 << 16)
        except OSError:
            part = b""
        self.is_lost = not part
        *lines, self._received = (self._received + part).split(b"\n")
        for message in map(json.loads, lines):
            if message["event"] == "ended":
                self.ended[message["pid"]] = message["status"]
            else:
                self._answers.append(message)

    def close(self) -> None:
        """Let it go; it ends what it has started."""
        self._connection.close()


class NodesTelemetry:
    """The samplers of all nodes, as `Telemetry` is one."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self.costs: Message = {}  # by node, once it has ended

    def begin(self, point: str, repetition: int) -> None:
        """The timed steps of a repetition begin now."""
        ask_all(self._nodes, {"do": "begin", "point": point, "repetition": repetition})

    def end(self, steps: int) -> Message:
        """They have ended: where their telemetry lies, and what each host has sent and received in a step."""
        ends = ask_all(self._nodes, {"do": "end", "steps": steps})
        return {
            "files": [file for end in ends for file in end["files"]],
            "begin_s": min(end["begin_s"] for end in ends),
            "end_s": max(end["end_s"] for end in ends),
            "hosts": {host: found for end in ends for host, found in end["hosts"].items()},
        }

    def close(self) -> None:
        """Let the samplers write what is left, and end."""
        ends = ask_all(self._nodes, {"do": "unwatch"})
        self.costs = {node.name: end["costs"] for node, end in zip(self._nodes, ends, strict=True)}


def ask_all(nodes: Sequence[Node], message: Message) -> list[Message]:
    """What each node answers; they do it at the same time."""
    for node in nodes:
        node.tell(message)
    return [node.answer() for node in nodes]
