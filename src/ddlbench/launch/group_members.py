"""All members of a worker group as one: started, connected, listened to, looked after and ended together."""

import selectors
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf, isinf
from signal import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV
from time import monotonic, sleep

from ddlbench.files import size_of
from ddlbench.launch.control_socket import ControlSocket
from ddlbench.launch.group_member import (
    GroupMember,
    LackedMemory,
    Launch,
    WorkerCrashed,
    WorkerFailed,
    WorkerStalled,
    start_of,
)
from ddlbench.launch.memory_signs import (
    FullAndIdle,
    has_filled_its_memory,
    kernel_kills,
    sign_of_lacking_memory,
)
from ddlbench.launch.starter import Starter
from ddlbench.protocol.channel import Closed
from ddlbench.protocol.codec import Malformed
from ddlbench.protocol.messages import Hello
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.system.processes import describe_exit

_CRASHES = (
    SIGSEGV,
    SIGBUS,
    SIGILL,
    SIGFPE,
)  # signals by which the kernel ends a process for what it did itself
_OF_SIGKILL = (-SIGKILL, 128 + SIGKILL)  # the second is what a container's engine says of what runs in it
_STARTING = "starting"  # the phase until all members are connected and have sent Hello
_ALLOWED = "more than `timeouts` of the configuration allow"
_POLL_S = 0.2
_STOP_S = 2.0
_KILLED_S = (
    60.0  # until the kernel lets go of a process that waits for a dead file system or driver, if it ever does
)


class GroupMembers:
    """The members of one launch, by rank; none before `start`.

    Args:
        timeouts: of the phases.
        check: is called while waiting, and may raise.
    """

    def __init__(self, timeouts: Timeouts, check: Callable[[], None]) -> None:
        self._timeouts = timeouts
        self._check = check
        self.by_rank: list[GroupMember] = []
        self._stuck = FullAndIdle([])
        self._kernel_kills = kernel_kills()

    def start(self, starter: Starter, launches: Sequence[Launch], control: ControlSocket[Hello]) -> None:
        """Start one member for each launch, and wait until all are connected and have sent Hello.

        Args:
            starter: what starts them.
            launches: where each starts, by rank.
            control: where they connect.

        Raises:
            DdlbenchError: they could not be started.
            WorkerFailed: one died or was too slow.
        """
        deadline = monotonic() + self._timeouts.launch_s
        for rank, launch in enumerate(launches):
            logged_before = size_of(launch.log)
            process = starter.start(start_of(rank, launch, control.address), deadline)
            self.by_rank.append(GroupMember(rank, launch, process, logged_before))
        # Until all are connected nobody reads what they send, so none counts as silent.
        while missing := [member for member in self.by_rank if member.channel is None]:
            self.look_after(_STARTING, deadline, missing)
            if accepted := control.accept(_POLL_S):
                channel, hello = accepted
                self.by_rank[hello.rank].channel = channel
        for member in self.by_rank:
            member.hear()
        self._stuck = FullAndIdle([member.process.pid for member in self.by_rank])

    def send(self, member: GroupMember, message: object) -> None:
        """Send one member a message, which begins a command.

        Args:
            member: of these.
            message: of the protocol.

        Raises:
            WorkerFailed: the member has died, or does not take the message.
        """
        assert member.channel is not None
        member.begin()
        self._stuck.restart()
        self._kernel_kills = kernel_kills()
        try:
            member.channel.send(message, _STOP_S)
        except OSError as error:
            with suppress(subprocess.TimeoutExpired):  # a connection ends before its process does
                member.process.wait(_STOP_S)
            self._raise_if_dead(member, "receiving its orders")
            raise WorkerFailed(
                f"{member.name} does not take its orders: {error}{member.log_tail()}"
            ) from error

    @contextmanager
    def listened_to(self) -> Iterator[selectors.BaseSelector]:
        """Listen to all members' connections.

        Yields:
            A selector for `arrived`.
        """
        with selectors.DefaultSelector() as selector:
            for member in self.by_rank:
                assert member.channel is not None
                selector.register(member.channel, selectors.EVENT_READ, member)
            yield selector

    def arrived(self, selector: selectors.BaseSelector) -> Iterator[tuple[GroupMember, object]]:
        """Get what members send within a moment; a member that has closed its connection is given time to end.

        Args:
            selector: of `listened_to`.

        Yields:
            A member and its message.

        Raises:
            WorkerFailed: a message cannot be read.
        """
        for key, _ in selector.select(_POLL_S):
            member: GroupMember = key.data
            assert member.channel is not None
            try:
                messages = member.channel.arrived()
            except Closed:
                selector.unregister(member.channel)  # else it would be found closed again at once, and again
                with suppress(subprocess.TimeoutExpired):
                    member.process.wait(_STOP_S)
                continue
            except Malformed as error:
                raise WorkerFailed(f"{member.name} sent what cannot be read: {error}") from error
            member.hear()
            for message in messages:
                member.hear(message)
                yield member, message

    def look_after(
        self, phase: str, deadline: float, awaited: Sequence[GroupMember], still_s: float = inf
    ) -> None:
        """Raise if something that the group needs is dead, silent, late, or makes no step.

        Args:
            phase: what the members do, for errors (`training`).
            deadline: of the phase, by the monotonic clock.
            awaited: the members that have not done it yet.
            still_s: for how long they may make no step, if they count steps.

        Raises:
            LackedMemory: a member died of a lack of memory, or one has no memory left and none computes or makes a step
                any more.
            WorkerCrashed: a member died of a fault in what it runs.
            WorkerStalled: a member makes no step any more, or has made none of this command in time.
            WorkerFailed: a member died, was silent or too slow.
        """
        self._check()
        for member in self.by_rank:
            self._raise_if_dead(member, phase)
            silent_s = monotonic() - member.heard
            if phase != _STARTING and silent_s > self._timeouts.heartbeat_s:
                raise WorkerFailed(
                    f"{member.name} has been silent for {silent_s:.0f} s while {phase}{member.log_tail()}"
                )
        if (stuck := self._stuck.full()) is not None:
            full = self.by_rank[stuck].name
            raise LackedMemory(f"no member computes any more while {phase}, and no memory is left to {full}")
        for member in awaited:
            if member.made_steps is not None and (unmoved_s := monotonic() - member.advanced) > still_s:
                still = f"{member.name} has made no step for {unmoved_s:.0f} s while {phase}"
                self._raise_if_full(still)
                raise WorkerStalled(f"{still}: {_ALLOWED}{member.log_tail()}", monotonic() - member.began)
        if awaited and monotonic() > deadline:
            others = f" and {len(awaited) - 1} more" if len(awaited) > 1 else ""
            slow = f"{awaited[0].name}{others} took too long while {phase}"
            self._raise_if_full(slow)
            late = f"{slow}: {_ALLOWED}{awaited[0].log_tail()}"
            if isinf(still_s) or any(member.has_made_steps for member in awaited):
                raise WorkerFailed(late)
            raise WorkerStalled(late, monotonic() - awaited[0].began)

    def _raise_if_full(self, waiting: str) -> None:
        for each in self.by_rank:
            if has_filled_its_memory(each.process.pid):
                raise LackedMemory(f"{waiting}, and no memory is left to {each.name}")

    def _raise_if_dead(self, member: GroupMember, phase: str) -> None:
        if member.process.poll() is None:
            return
        # One member's end may end others, whose end may be seen first.
        for each in self.by_rank:
            if sign := sign_of_lacking_memory(each.logged()):
                raise LackedMemory(f"{each.name} ran out of memory while {phase}: {sign}")
        first = self._killed() or member
        status = first.process.wait()
        if status in _OF_SIGKILL and kernel_kills() > self._kernel_kills:
            raise LackedMemory(
                f"{first.name} was killed by the kernel, which ran out of memory, while {phase}"
            )
        failure = WorkerCrashed if -status in _CRASHES else WorkerFailed
        raise failure(f"{first.name} died ({describe_exit(status)}) while {phase}{first.log_tail()}")

    def _killed(self) -> GroupMember | None:
        """A member that a signal has ended, not its own error; that may be known a moment after the end of others."""
        until = monotonic() + _STOP_S
        while True:
            ended = [each.process.poll() for each in self.by_rank]
            for rank, status in enumerate(ended):
                if status is not None and status < 0 and status != -SIGABRT:
                    return self.by_rank[rank]
            if None not in ended or monotonic() > until:
                return None
            sleep(_POLL_S)

    def wait(self) -> None:
        """Give the members a moment to end by themselves."""
        for member in self.by_rank:
            try:
                member.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                return

    def kill(self) -> None:
        """End all members by SIGKILL, and close their connections."""
        for member in self.by_rank:
            member.process.kill()
        for member in self.by_rank:
            with suppress(subprocess.TimeoutExpired):
                member.process.wait(_KILLED_S)
            if member.channel is not None:
                member.channel.close()
