"""A worker group: the processes of one launch, which run together and get their commands over a control socket."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from math import inf
from time import monotonic
from types import TracebackType
from typing import Self, TypeVar

from ddlbench.launch.control_socket import ControlSocket
from ddlbench.launch.group_member import Fate, Launch, WorkerFailed, WorkerRefused
from ddlbench.launch.group_members import GroupMembers
from ddlbench.launch.starter import Starter
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
        self.timeouts = timeouts
        self._check = check
        self._members = GroupMembers(timeouts, check)
        with ExitStack() as on_error:
            on_error.callback(self._members.kill)
            with control:
                self._members.start(starter, launches, control)
            self.greeted_s = monotonic()  # when the last Hello arrived
            for member, assignment in zip(self._members.by_rank, assignments, strict=True):
                self._members.send(member, assignment)
            self.ready = self._collect(Ready, "launch", timeouts.launch_s)
            on_error.pop_all()

    def connect(self, models: Sequence[ModelShape], dilation: float | None = None) -> None:
        """Let the ranks connect to each other and build the models.

        Args:
            models: all that will be trained.
            dilation: of time, from now on; None: that of the assignments.

        Raises:
            WorkerFailed: a member died, was silent or too slow.
        """
        self.command(Connect(models, dilation), Connected, "connecting", self.timeouts.prepare_s)

    def prepare(self, point: TrainingPoint, seed: int) -> list[Prepared]:
        """Send a point to every rank; each tries a step without communication.

        Args:
            point: of a model that `connect` has built.
            seed: of its parameters and batches.

        Returns:
            Whether the step fits into memory, by rank.

        Raises:
            WorkerFailed: a member died, was silent or too slow.
        """
        return self.command(Prepare(point, seed), Prepared, "preparing", self.timeouts.prepare_s)

    def train(self, steps: int, *, from_fresh: bool = False, delay_s: float = 0.0) -> list[Trained]:
        """Train some steps on every rank.

        Args:
            steps: how many.
            from_fresh: first set everything as the point's seed determines it.
            delay_s: each worker begins so much later than the one before it.

        Returns:
            Step times in ms, by rank; they are empty for ranks of which others report the times.

        Raises:
            WorkerStalled: members make no step any more.
            WorkerFailed: a member died, was silent or too slow.
        """
        before_s = self.timeouts.prepare_s + len(self._members.by_rank) * delay_s
        limit_s, still_s = (before_s + each * self.timeouts.step_s for each in (steps, 1))
        return self.command(Train(steps, from_fresh, delay_s), Trained, "training", limit_s, still_s)

    def conclude(self, *, evaluate: bool, parts: int = 1, save_to: str | None = None) -> list[Concluded]:
        """Hash the parameters on every rank; one tests and saves them, if asked.

        Args:
            evaluate: whether to test them.
            parts: of the test images, of which each may take as long as a step.
            save_to: the file to save them to (.npz), if they are to be saved.

        Returns:
            The hashes, and the test's result from the rank that tests, by rank.

        Raises:
            WorkerFailed: a member died, was silent or too slow.
        """
        limit_s = self.timeouts.prepare_s + evaluate * parts * self.timeouts.step_s
        return self.command(Conclude(evaluate, save_to), Concluded, "concluding", limit_s)

    def pids(self) -> list[int]:
        """List the members' process ids, by rank."""
        return [member.process.pid for member in self._members.by_rank]

    def command(
        self, command: Command, reply: type[R], phase: str, limit_s: float, still_s: float = inf
    ) -> list[R]:
        """Send a command to every rank and wait for the replies.

        Args:
            command: what to do.
            reply: the class of the replies.
            phase: its name in errors (`training`).
            limit_s: how long it may take, in seconds.
            still_s: for how long members that count steps may make none.

        Returns:
            The replies, by rank.

        Raises:
            WorkerFailed: a member died, was silent or too slow.
        """
        for member in self._members.by_rank:
            self._members.send(member, command)
        return self._collect(reply, phase, limit_s, still_s)

    def send(self, command: Command) -> None:
        """Send a command to every rank that is alive, without waiting for a reply.

        Args:
            command: what to do.
        """
        for member in self._members.by_rank:
            with suppress(WorkerFailed):
                self._members.send(member, command)

    def kill(self, ranks: Iterable[int]) -> None:
        """End some ranks by SIGKILL.

        Args:
            ranks: their numbers.
        """
        for rank in ranks:
            self._members.by_rank[rank].process.kill()

    def fates(self, reply: type[object], limit_s: float) -> list[Fate]:
        """Observe the ranks until each has replied or ended, or the time is over.

        Args:
            reply: the class of the replies.
            limit_s: how long to wait, in seconds.

        Returns:
            The fate of each rank; one that has neither replied nor ended has neither.
        """
        began = monotonic()
        members = self._members.by_rank
        found: dict[int, Fate] = {}
        with self._members.listened_to() as selector:
            while len(found) < len(members) and monotonic() < began + limit_s:
                for member, message in self._members.arrived(selector):
                    if isinstance(message, reply):
                        found[member.rank] = Fate(member.name, monotonic() - began, reply=message)
                self._check()
                for member in (each for each in members if each.rank not in found):
                    if (status := member.process.poll()) is not None:
                        found[member.rank] = Fate(
                            member.name,
                            monotonic() - began,
                            ended=describe_exit(status),
                            log_tail=member.log_tail(),
                        )
        nothing = [Fate(member.name, monotonic() - began) for member in members]
        return [found.get(rank, nothing[rank]) for rank in range(len(members))]

    def _collect(self, reply: type[R], phase: str, limit_s: float, still_s: float = inf) -> list[R]:
        deadline = monotonic() + limit_s
        replies: dict[int, R] = {}
        with self._members.listened_to() as selector:
            while len(replies) < len(self._members.by_rank):
                for member, message in self._members.arrived(selector):
                    if isinstance(message, Refused):
                        raise WorkerRefused(f"{member.name}: {message.why}")
                    if isinstance(message, reply):
                        replies[member.rank] = message
                awaited = [member for member in self._members.by_rank if member.rank not in replies]
                self._members.look_after(phase, deadline, awaited, still_s)
        return [replies[rank] for rank in sorted(replies)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # all is reported, so it does not matter how the members end
            self.send(Stop())
            self._members.wait()
        self._members.kill()
