"""A worker group: the processes of one launch, alive together, told what to do over one socket each."""

import json
import selectors
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from ddlbench.errors import DdlbenchError
from ddlbench.files import tail
from ddlbench.launch.control_socket import Door
from ddlbench.launch.fork_starter import namespace_path
from ddlbench.launch.memory_signs import sign_of_lacking_memory
from ddlbench.launch.starter import Process, Starter
from ddlbench.network.hosts import Host
from ddlbench.system.processes import describe_exit

Message = dict[str, Any]
_STARTING = "starting"  # the phase in which members say hello, each when it is there
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
    """Where a member starts: the host that it belongs to, that host's network namespace, its log, and its role.

    variables: environment variables that it has and the others of its host have not.
    """

    host: Host
    namespace: int | None
    log: Path
    role: str = "worker"
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fate:
    """What has become of a member that was told to do something: its answer, or how it ended, or neither so far."""

    name: str
    after_s: float  # until then
    answer: Message | None = None
    ended: str | None = None  # SIGKILL, status 1
    said: str = ""  # the end of its log, where it has ended


class WorkerFailed(DdlbenchError):
    """A worker died, went silent or took too long; the group cannot be used any more."""


class Refused(WorkerFailed):
    """A worker cannot do what its job says, and has told why and what to do, for a person."""


class LackedMemory(WorkerFailed):
    """A worker died for want of memory, as its log says; the group cannot be used any more, another one can."""


class _Member:
    """One worker: its process, its connection, and when it was last heard."""

    def __init__(self, rank: int, launch: Launch, process: Process) -> None:
        self.rank = rank
        self.launch = launch
        self.process = process
        self.connection: socket.socket | None = None
        self.received = b""
        self.heard = monotonic()
        self.logged_before = 0

    @property
    def name(self) -> str:
        who = f"rank {self.rank}" if self.launch.role == "worker" else f"the {self.launch.role}"
        return f"{who} on host {self.launch.host.name}"

    def log_tail(self) -> str:
        """The last lines of its log, indented."""
        return tail(self.launch.log)

    def begin(self) -> None:
        """It is told to do something: what it has logged so far does not belong to that."""
        self.logged_before = self.launch.log.stat().st_size if self.launch.log.exists() else 0

    def logged(self) -> str:
        """What it has logged since it was told to do something."""
        log = self.launch.log.read_bytes() if self.launch.log.exists() else b""
        return log[self.logged_before :].decode(errors="replace")


class WorkerGroup:
    """Fork one worker a launch and wait until each has said hello and, its job given, that it is ready.

    They are forked from `server`, which is not needed any more then. They come to the `door`, which is closed when all
    are there; `jobs` holds what each rank is told first; `check` is called while waiting and may raise. Raises
    DdlbenchError where they cannot be forked and WorkerFailed later, after which nothing runs.
    """

    def __init__(
        self,
        server: Starter,
        launches: Sequence[Launch],
        jobs: Sequence[Message],
        *,
        door: Door,
        timeouts: Timeouts,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._timeouts = timeouts
        self._check = check
        self._members: list[_Member] = []
        with ExitStack() as on_error:
            on_error.callback(self._kill)
            with door:
                deadline = monotonic() + timeouts.launch_s
                for rank, launch in enumerate(launches):
                    process = server.start(_order(rank, launch, door.address), deadline)
                    self._members.append(_Member(rank, launch, process))
                self._accept(door, deadline)
            self.greeted_s = monotonic()  # when the last one said hello
            for member, job in zip(self._members, jobs, strict=True):
                self._send(member, job)
            self.ready = self._collect("ready", "launch", timeouts.launch_s)
            on_error.pop_all()

    def connect(self, models: list[tuple[str, list[int]]]) -> None:
        """Have the ranks make new connections among each other, and the models (name, image shape) on them."""
        self.command({"do": "connect", "models": models}, "connected", "connecting", self._timeouts.prepare_s)

    def prepare(self, point: Message, seed: int) -> list[Message]:
        """Have every rank take a point; a step without communication tells whether it `fits`."""
        command = {"do": "prepare", "point": point, "seed": seed}
        return self.command(command, "prepared", "preparing", self._timeouts.prepare_s)

    def train(self, steps: int, *, from_fresh: bool = False) -> list[Message]:
        """Have every rank train `steps` steps, first setting everything to the point's seed if `from_fresh`."""
        command = {"do": "train", "steps": steps, "from_fresh": from_fresh}
        limit_s = self._timeouts.prepare_s + steps * self._timeouts.step_s
        return self.command(command, "trained", "training", limit_s)

    def conclude(self, *, evaluate: bool, save_to: str | None = None) -> list[Message]:
        """Have every rank hash its parameters; rank 0 tests them (`evaluate`) and saves them, if asked."""
        command = {"do": "conclude", "evaluate": evaluate, "save_to": save_to}
        return self.command(command, "concluded", "concluding", self._timeouts.prepare_s)

    def pids(self) -> list[int]:
        """The workers' process ids, by rank."""
        return [member.process.pid for member in self._members]

    def command(self, command: Message, answer: str, phase: str, limit_s: float) -> list[Message]:
        """Have every rank do as `command` says; their answers of the kind `answer`, by rank, within `limit_s`."""
        for member in self._members:
            self._send(member, command)
        return self._collect(answer, phase, limit_s)

    def tell(self, command: Message) -> None:
        """Tell every rank that is alive to do as `command` says, without waiting for an answer."""
        for member in self._members:
            with suppress(WorkerFailed, OSError):
                self._send(member, command)

    def kill(self, ranks: Iterable[int]) -> None:
        """Have these ranks end by SIGKILL."""
        for rank in ranks:
            self._members[rank].process.kill()

    def fates(self, answer: str, limit_s: float) -> list[Fate]:
        """What becomes of the ranks until each has given an answer of this kind or ended, or `limit_s` has passed."""
        began = monotonic()
        found: dict[int, Fate] = {}
        with selectors.DefaultSelector() as selector:
            for member in self._members:
                assert member.connection is not None
                selector.register(member.connection, selectors.EVENT_READ, member)
            while len(found) < len(self._members) and monotonic() < began + limit_s:
                for key, _ in selector.select(_POLL_S):
                    for message in self._read(key.data):
                        if message["event"] == answer:
                            found[key.data.rank] = Fate(key.data.name, monotonic() - began, answer=message)
                self._check()
                for member in (each for each in self._members if each.rank not in found):
                    if (status := member.process.poll()) is not None:
                        selector.unregister(member.connection)  # type: ignore[arg-type]
                        ended = describe_exit(status)
                        found[member.rank] = Fate(
                            member.name, monotonic() - began, ended=ended, said=member.log_tail()
                        )
        nothing = [Fate(member.name, monotonic() - began) for member in self._members]
        return [found.get(rank, nothing[rank]) for rank in range(len(self._members))]

    def _send(self, member: _Member, message: Message) -> None:
        assert member.connection is not None
        member.begin()
        try:
            member.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._raise_if_dead(member, "receiving its orders")
            raise

    def _accept(self, door: Door, deadline: float) -> None:
        """Let all members in. Nobody listens to those who are in already: they may be silent until all are."""
        while any(member.connection is None for member in self._members):
            self._look_after(_STARTING, deadline)
            if come := door.answer(_POLL_S):
                connection, hello = come
                connection.settimeout(_STOP_S)
                member = self._members[hello["rank"]]
                member.connection = connection
        for member in self._members:
            member.heard = monotonic()

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
                        if message["event"] == "refused":
                            raise Refused(f"{key.data.name}: {message['why']}")
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
            with suppress(subprocess.TimeoutExpired):
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
            if phase != _STARTING and silent_s > self._timeouts.heartbeat_s:
                raise WorkerFailed(
                    f"{member.name} has been silent for {silent_s:.0f} s while {phase}{member.log_tail()}"
                )
        if monotonic() > deadline:
            raise WorkerFailed(f"the worker group took too long while {phase}{self._members[0].log_tail()}")

    def _raise_if_dead(self, member: _Member, phase: str) -> None:
        status = member.process.poll()
        if status is None:
            return
        for each in self._members:  # others die of a member's end, and may be seen before it
            if sign := sign_of_lacking_memory(each.logged()):
                raise LackedMemory(f"{each.name} ran out of memory while {phase}: {sign}")
        raise WorkerFailed(f"{member.name} died ({describe_exit(status)}) while {phase}{member.log_tail()}")

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
        self.tell({"do": "stop"})
        for member in self._members:
            try:
                member.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                return


def _order(rank: int, launch: Launch, control: str) -> Message:
    """What the fork server is told: a worker's rank and variables, and its host."""
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    return {
        "rank": rank,
        "control": control,
        "host": launch.host.name,
        "namespace": namespace_path(launch.namespace),
        "cores": launch.host.cores,
        "memory_bytes": launch.host.memory_bytes,
        "core_share": launch.host.core_share,
        "variables": dict(launch.variables),
        "log": str(launch.log),
    }
