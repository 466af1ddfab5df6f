"""The members of a worker group as their supervisor sees them: where each starts, its process, and how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from ddlbench.errors import DdlbenchError
from ddlbench.files import since, size_of, tail
from ddlbench.launch.fork_starter import namespace_path
from ddlbench.launch.starter import Process
from ddlbench.network.hosts import Host
from ddlbench.protocol.channel import LineChannel
from ddlbench.protocol.fork_messages import StartMember
from ddlbench.protocol.messages import Alive


@dataclass(frozen=True)
class Launch:
    """Where a member starts.

    Attributes:
        host: the host that it belongs to.
        namespace: that host's network namespace, by descriptor (None: ours).
        log: the file for its output.
        role: what it is in the group.
        variables: environment variables of its own, besides those of all members.
    """

    host: Host
    namespace: int | None
    log: Path
    role: str = "worker"
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fate:
    """How a member replied to a command, or how it ended.

    Attributes:
        name: of the member.
        after_s: the time until then, in seconds.
        reply: to the command, if there was one.
        ended: how it ended, if it did (`SIGKILL`, `status 1`).
        log_tail: the end of its log, if it ended.
    """

    name: str
    after_s: float
    reply: object = None
    ended: str | None = None
    log_tail: str = ""


class WorkerFailed(DdlbenchError):
    """A worker died, was silent or took too long; the group cannot be used any more."""


class WorkerRefused(WorkerFailed):
    """A worker cannot do what its assignment says; the text says why and what a person can do."""


class LackedMemory(WorkerFailed):
    """A worker died of a lack of memory, as its log says; the group cannot be used any more, another one can."""


class WorkerCrashed(WorkerFailed):
    """A fault in what a worker runs has ended it (SIGSEGV, ...); the group cannot be used any more, another one can."""


class WorkerStalled(WorkerFailed):
    """All members live and none makes a step any more; the group cannot be used any more, another one can.

    Attributes:
        lasted_s: how long ago their last command began.
    """

    def __init__(self, message: str, lasted_s: float) -> None:
        """Take the message for a person, and the time."""
        super().__init__(message)
        self.lasted_s = lasted_s


class GroupMember:
    """One member: its process, its connection, when its last message came, and when it made its last step.

    Args:
        rank: in the group.
        launch: where it has started.
        process: which may still be starting.
        logged_before: bytes of its log that earlier processes have written.
    """

    def __init__(self, rank: int, launch: Launch, process: Process, logged_before: int) -> None:
        self.rank = rank
        self.launch = launch
        self.process = process
        self.channel: LineChannel[object] | None = None
        self.heard = self.advanced = self.began = monotonic()
        self.made_steps: int | None = None
        self._first_count: int | None = None  # of the last command
        self._of_others = self._logged_before = logged_before

    @property
    def name(self) -> str:
        who = f"rank {self.rank}" if self.launch.role == "worker" else f"the {self.launch.role}"
        return f"{who} on host {self.launch.host.name}"

    @property
    def has_made_steps(self) -> bool:
        """Whether it has made steps of its last command; the first count in a command may be of those before."""
        return self._first_count is not None and (self.made_steps or 0) > self._first_count

    def log_tail(self) -> str:
        """Read the last lines that it has logged, indented."""
        return tail(self.launch.log, self._of_others)

    def begin(self) -> None:
        """Begin a command; `logged` then starts here, and so does the time without a step."""
        self.advanced = self.began = monotonic()
        self._first_count = None
        self._logged_before = size_of(self.launch.log)

    def hear(self, message: object = None) -> None:
        """Note that something came from the member, and whether it says that more steps were made.

        Args:
            message: what came; None: a part of a message.
        """
        self.heard = monotonic()
        if isinstance(message, Alive):
            if self._first_count is None:
                self._first_count = message.made_steps
            if message.made_steps != self.made_steps:
                self.made_steps, self.advanced = message.made_steps, self.heard

    def logged(self) -> str:
        """Read what the member has logged since its last command, or since it was started."""
        return since(self.launch.log, self._logged_before)


def start_of(rank: int, launch: Launch, control: str) -> StartMember:
    """Write the message with which a starter starts a member; make the folder of its log.

    Args:
        rank: of the member.
        launch: where it starts.
        control: the address of the group's control socket.

    Returns:
        The message.
    """
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    return StartMember(
        rank=rank,
        control=control,
        host=launch.host.name,
        namespace=namespace_path(launch.namespace),
        cores=launch.host.cores,
        memory_bytes=launch.host.memory_bytes,
        short_slice=launch.namespace is not None,
        variables=launch.variables,
        log=str(launch.log),
    )
