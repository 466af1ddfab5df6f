"""A worker group: the processes of one launch, alive together, told what to do over one socket each."""

import json
import selectors
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from ddlbench.errors import DdlbenchError
from ddlbench.files import tail
from ddlbench.network.hosts import Host
from ddlbench.runtime.fork_server import ForkServer, namespace_path
from ddlbench.runtime.processes import Orphan, describe_exit

Message = dict[str, Any]
_POLL_S = 0.2
_STOP_S = 2.0


@dataclass(frozen=True)
class Timeouts:
    """How long a phase may last, in seconds, and how long a worker may be silent."""

    launch_s: float
    prepare_s: float
    step_s: float
    heartbeat_s: float


@dataclass(frozen=True)
class Launch:
    """Where a worker starts: the host that it belongs to, that host's network namespace, and its log."""

    host: Host
    namespace: int | None
    log: Path


class WorkerFailed(DdlbenchError):
    """A worker died, went silent or took too long; the group cannot be used any more."""


class _Member:
    """One worker: its process, its connection, and when it was last heard."""

    def __init__(self, rank: int, launch: Launch, process: Orphan) -> None:
        self.rank = rank
        self.launch = launch
        self.process = process
        self.connection: socket.socket | None = None
        self.received = b""
        self.heard = monotonic()

    @property
    def name(self) -> str:
        return f"rank {self.rank} on host {self.launch.host.name}"

    def log_tail(self) -> str:
        """The last lines of its log, indented."""
        return tail(self.launch.log)


class WorkerGroup:
    """Fork one worker a launch and wait until each has said hello and, its job given, that it is ready.

    They are forked from `server`, which is not needed any more then. `control` is a path for the Unix socket, on a
    file system that dies with the sandbox; `jobs` holds what each rank is told first; `check` is called while waiting
    and may raise. Raises DdlbenchError where they cannot be forked and WorkerFailed later, after which nothing runs.
    """

    def __init__(
        self,
        server: ForkServer,
        launches: Sequence[Launch],
        jobs: Sequence[Message],
        *,
        control: Path,
        timeouts: Timeouts,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._timeouts = timeouts
        self._check = check
        self._members: list[_Member] = []
        with ExitStack() as on_error:
            on_error.callback(self._kill)
            control.parent.mkdir(parents=True, exist_ok=True)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(str(control))
                listener.listen(len(launches))
                deadline = monotonic() + timeouts.launch_s
                for rank, launch in enumerate(launches):
                    process = server.start(_order(rank, launch, control), deadline)
                    self._members.append(_Member(rank, launch, process))
                self._accept(listener, deadline)
            for member, job in zip(self._members, jobs, strict=True):
                self._send(member, job)
            self.ready = self._collect("ready", "launch", timeouts.launch_s)
            on_error.pop_all()

    def connect(self, models: list[tuple[str, list[int]]]) -> None:
        """Have the ranks make new connections among each other, and the models (name, image shape) on them."""
        self._command(
            {"do": "connect", "models": models}, "connected", "connecting", self._timeouts.prepare_s
        )

    def prepare(self, point: Message, seed: int) -> list[Message]:
        """Have every rank take a point; a step without communication tells whether it `fits`."""
        command = {"do": "prepare", "point": point, "seed": seed}
        return self._command(command, "prepared", "preparing", self._timeouts.prepare_s)

    def train(self, steps: int, *, from_fresh: bool = False) -> list[Message]:
        """Have every rank train `steps` steps, first setting everything to the point's seed if `from_fresh`."""
        command = {"do": "train", "steps": steps, "from_fresh": from_fresh}
        limit_s = self._timeouts.prepare_s + steps * self._timeouts.step_s
        return self._command(command, "trained", "training", limit_s)

    def conclude(self, *, evaluate: bool) -> list[Message]:
        """Have every rank hash its parameters, and rank 0 `evaluate` the test set if asked."""
        command = {"do": "conclude", "evaluate": evaluate}
        return self._command(command, "concluded", "concluding", self._timeouts.prepare_s)

    def pids(self) -> list[int]:
        """The workers' process ids, by rank."""
        return [member.process.pid for member in self._members]

    def _command(self, command: Message, answer: str, phase: str, limit_s: float) -> list[Message]:
        for member in self._members:
            self._send(member, command)
        return self._collect(answer, phase, limit_s)

    def _send(self, member: _Member, message: Message) -> None:
        assert member.connection is not None
        try:
            member.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._raise_if_dead(member, "receiving its orders")
            raise

    def _accept(self, listener: socket.socket, deadline: float) -> None:
        listener.settimeout(_POLL_S)
        while any(member.connection is None for member in self._members):
            self._look_after("starting", deadline)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(_STOP_S)
            hello = json.loads(connection.makefile("r").readline())
            member = self._members[hello["rank"]]
            member.connection, member.heard = connection, monotonic()

    def _collect(self, answer: str, phase: str, limit_s: float) -> list[Message]:
        """One message of the kind `answer` from every rank."""
        deadline = monotonic() + limit_s
        answers: dict[int, Message] = {}
        with selectors.DefaultSelector() as selector:
            for member in self._members:
                assert member.connection is not None
                selector.register(member.connection, selectors.EVENT_READ, member)
            while len(answers) < len(self._members):
                for key, _ in selector.select(_POLL_S):
                    for message in self._read(key.data):
                        if message["event"] == answer:
                            answers[key.data.rank] = message
                self._look_after(phase, deadline)
        return [answers[rank] for rank in sorted(answers)]

    def _read(self, member: _Member) -> list[Message]:
        assert member.connection is not None
        try:
            received = member.connection.recv(1 << 20)
        except ConnectionResetError:
            received = b""
        if not received:
            member.process.wait(_STOP_S)
            return []
        member.heard = monotonic()
        *lines, member.received = (member.received + received).split(b"\n")
        return [json.loads(line) for line in lines]

    def _look_after(self, phase: str, deadline: float) -> None:
        """Raise where something that the group needs is dead, silent or late."""
        self._check()
        for member in self._members:
            self._raise_if_dead(member, phase)
            silent_s = monotonic() - member.heard
            if member.connection is not None and silent_s > self._timeouts.heartbeat_s:
                raise WorkerFailed(
                    f"{member.name} has been silent for {silent_s:.0f} s while {phase}{member.log_tail()}"
                )
        if monotonic() > deadline:
            raise WorkerFailed(f"the worker group took too long while {phase}{self._members[0].log_tail()}")

    def _raise_if_dead(self, member: _Member, phase: str) -> None:
        status = member.process.poll()
        if status is not None:
            raise WorkerFailed(
                f"{member.name} died ({describe_exit(status)}) while {phase}{member.log_tail()}"
            )

    def _kill(self) -> None:
        for member in self._members:
            member.process.kill()
        for member in self._members:
            member.process.wait()
            if member.connection is not None:
                member.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._stop()
        self._kill()

    def _stop(self) -> None:
        """Let the workers end by themselves; all is reported, so how they end does not matter any more."""
        for member in self._members:
            self._send(member, {"do": "stop"})
        for member in self._members:
            try:
                member.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                return


def _order(rank: int, launch: Launch, control: Path) -> Message:
    """What the fork server is told: a worker's rank, and its host's namespace, cores and memory limit."""
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    return {
        "rank": rank,
        "control": str(control),
        "namespace": namespace_path(launch.namespace),
        "cores": launch.host.cores,
        "memory_bytes": launch.host.memory_bytes,
        "log": str(launch.log),
    }
