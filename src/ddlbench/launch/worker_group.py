"""A worker group: the processes of one launch, which run together and get their commands over a control socket."""

import selectors
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from time import monotonic
from types import TracebackType
from typing import Self, TypeVar

from ddlbench.launch.control_socket import ControlSocket
from ddlbench.launch.group_member import (
    Fate,
    GroupMember,
    LackedMemory,
    Launch,
    WorkerFailed,
    WorkerRefused,
    start_of,
)
from ddlbench.launch.memory_signs import sign_of_lacking_memory
from ddlbench.launch.starter import Starter
from ddlbench.protocol.channel import Closed
from ddlbench.protocol.codec import Malformed
from ddlbench.protocol.messages import (
    Assignment,
    Command,
    Conclude,
    Concluded,
    Connect,
    Connected,
    Hello,
    ModelShape,
    Prepare,
    Prepared,
    Ready,
    Refused,
    Stop,
    Train,
    Trained,
    TrainingPoint,
)
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.system.processes import describe_exit

R = TypeVar("R")
_STARTING = "starting"  # the phase until all members are connected and have sent Hello
_POLL_S = 0.2
_STOP_S = 2.0


class WorkerGroup:
    """Starts one member for each launch; waits for its Hello, sends its assignment, waits for its Ready.

    Args:
        starter: what starts them; it is not needed afterwards.
        launches: where each starts, by rank.
        assignments: what each rank is.
        control: where they connect; it is closed when all are connected.
        timeouts: of the phases.
        check: is called while waiting, and may raise.

    Raises:
        DdlbenchError: they could not be started.
        WorkerFailed: one died, was silent or too slow; all have been ended.
    """

    def __init__(
        self,
        starter: Starter,
        launches: Sequence[Launch],
        assignments: Sequence[Assignment],
        *,
        control: ControlSocket[Hello],
        timeouts: Timeouts,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._timeouts = timeouts
        self._check = check
        self._members: list[GroupMember] = []
        with ExitStack() as on_error:
            on_error.callback(self._kill)
            with control:
                deadline = monotonic() + timeouts.launch_s
                for rank, launch in enumerate(launches):
                    process = starter.start(start_of(rank, launch, control.address), deadline)
                    self._members.append(GroupMember(rank, launch, process))
                self._accept(control, deadline)
            self.greeted_s = monotonic()  # when the last Hello arrived
            for member, assignment in zip(self._members, assignments, strict=True):
                self._send(member, assignment)
            self.ready = self._collect(Ready, "launch", timeouts.launch_s)
            on_error.pop_all()

    def connect(self, models: Sequence[ModelShape]) -> None:
        """Let the ranks connect to each other and build the models."""
        self.command(Connect(models), Connected, "connecting", self._timeouts.prepare_s)

    def prepare(self, point: TrainingPoint, seed: int) -> list[Prepared]:
        """Send a point to every rank; each tries a step without communication.

        Args:
            point: of a model that `connect` has built.
            seed: of its parameters and batches.

        Returns:
            Whether the step fits into memory, by rank.
        """
        return self.command(Prepare(point, seed), Prepared, "preparing", self._timeouts.prepare_s)

    def train(self, steps: int, *, from_fresh: bool = False) -> list[Trained]:
        """Train some steps on every rank.

        Args:
            steps: how many.
            from_fresh: first set everything as the point's seed determines it.

        Returns:
            Step times in ms, by rank; they are empty for ranks of which others report the times.
        """
        limit_s = self._timeouts.prepare_s + steps * self._timeouts.step_s
        return self.command(Train(steps, from_fresh), Trained, "training", limit_s)

    def conclude(self, *, evaluate: bool, save_to: str | None = None) -> list[Concluded]:
        """Hash the parameters on every rank; one tests them (`evaluate`) and saves them (`save_to`, .npz), if asked."""
        return self.command(Conclude(evaluate, save_to), Concluded, "concluding", self._timeouts.prepare_s)

    def pids(self) -> list[int]:
        """List the members' process ids, by rank."""
        return [member.process.pid for member in self._members]

    def command(self, command: Command, reply: type[R], phase: str, limit_s: float) -> list[R]:
        """Send a command to every rank and wait for the replies.

        Args:
            command: what to do.
            reply: the class of the replies.
            phase: its name in errors (`training`).
            limit_s: how long it may take, in seconds.

        Returns:
            The replies, by rank.

        Raises:
            WorkerFailed: a member died, was silent or too slow.
        """
        for member in self._members:
            self._send(member, command)
        return self._collect(reply, phase, limit_s)

    def send(self, command: Command) -> None:
        """Send a command to every rank that is alive, without waiting for a reply.

        Args:
            command: what to do.
        """
        for member in self._members:
            with suppress(WorkerFailed, OSError):
                self._send(member, command)

    def kill(self, ranks: Iterable[int]) -> None:
        """End some ranks by SIGKILL."""
        for rank in ranks:
            self._members[rank].process.kill()

    def fates(self, reply: type[object], limit_s: float) -> list[Fate]:
        """Observe the ranks until each has replied or ended, or the time is over.

        Args:
            reply: the class of the replies.
            limit_s: how long to wait, in seconds.

        Returns:
            The fate of each rank; one that has neither replied nor ended has neither.
        """
        began = monotonic()
        found: dict[int, Fate] = {}
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            while len(found) < len(self._members) and monotonic() < began + limit_s:
                for member, message in self._arrived(selector):
                    if isinstance(message, reply):
                        found[member.rank] = Fate(member.name, monotonic() - began, reply=message)
                self._check()
                for member in (each for each in self._members if each.rank not in found):
                    if (status := member.process.poll()) is not None:
                        assert member.channel is not None
                        selector.unregister(member.channel)
                        found[member.rank] = Fate(
                            member.name,
                            monotonic() - began,
                            ended=describe_exit(status),
                            log_tail=member.log_tail(),
                        )
        nothing = [Fate(member.name, monotonic() - began) for member in self._members]
        return [found.get(rank, nothing[rank]) for rank in range(len(self._members))]

    def _send(self, member: GroupMember, message: object) -> None:
        assert member.channel is not None
        member.begin()
        try:
            member.channel.send(message, _STOP_S)
        except OSError:
            self._raise_if_dead(member, "receiving its orders")
            raise

    def _accept(self, control: ControlSocket[Hello], deadline: float) -> None:
        """Wait for all members to connect. Until then nobody reads what they send, so none counts as silent."""
        while any(member.channel is None for member in self._members):
            self._look_after(_STARTING, deadline)
            if accepted := control.accept(_POLL_S):
                channel, hello = accepted
                self._members[hello.rank].channel = channel
        for member in self._members:
            member.heard = monotonic()

    def _collect(self, reply: type[R], phase: str, limit_s: float) -> list[R]:
        deadline = monotonic() + limit_s
        replies: dict[int, R] = {}
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            while len(replies) < len(self._members):
                for member, message in self._arrived(selector):
                    if isinstance(message, Refused):
                        raise WorkerRefused(f"{member.name}: {message.why}")
                    if isinstance(message, reply):
                        replies[member.rank] = message
                self._look_after(phase, deadline)
        return [replies[rank] for rank in sorted(replies)]

    def _register(self, selector: selectors.BaseSelector) -> None:
        for member in self._members:
            assert member.channel is not None
            selector.register(member.channel, selectors.EVENT_READ, member)

    def _arrived(self, selector: selectors.BaseSelector) -> Iterator[tuple[GroupMember, object]]:
        """Get what members send within a moment; a member that has closed its connection is given time to end."""
        for key, _ in selector.select(_POLL_S):
            member: GroupMember = key.data
            assert member.channel is not None
            try:
                messages = member.channel.arrived()
            except Closed:
                with suppress(subprocess.TimeoutExpired):
                    member.process.wait(_STOP_S)
                continue
            except Malformed as error:
                raise WorkerFailed(f"{member.name} sent what cannot be read: {error}") from error
            member.heard = monotonic()
            for message in messages:
                yield member, message

    def _look_after(self, phase: str, deadline: float) -> None:
        """Raise if something that the group needs is dead, silent or late."""
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

    def _raise_if_dead(self, member: GroupMember, phase: str) -> None:
        status = member.process.poll()
        if status is None:
            return
        for each in self._members:  # one member's end may end others, whose end may be seen first
            if sign := sign_of_lacking_memory(each.logged()):
                raise LackedMemory(f"{each.name} ran out of memory while {phase}: {sign}")
        raise WorkerFailed(f"{member.name} died ({describe_exit(status)}) while {phase}{member.log_tail()}")

    def _kill(self) -> None:
        for member in self._members:
            member.process.kill()
        for member in self._members:
            member.process.wait()
            if member.channel is not None:
                member.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._stop()
        self._kill()

    def _stop(self) -> None:
        """Let the members end by themselves; all is reported, so their exit status does not matter."""
        self.send(Stop())
        for member in self._members:
            try:
                member.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                return
