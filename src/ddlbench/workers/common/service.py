"""The loop of every worker: receive a command from the supervisor, carry it out, reply; until Stop comes."""

import os
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Protocol

from ddlbench.protocol.messages import (
    Assignment,
    Command,
    Conclude,
    Concluded,
    Connect,
    Connected,
    Prepare,
    Prepared,
    Ready,
    Reply,
    Stop,
    Train,
    Trained,
)
from ddlbench.workers.common.control import Control
from ddlbench.workers.common.scheduler_slice import slice_ms


class Member(Protocol):
    """A member of a group that trains: a method for each command."""

    def connect(self, command: Connect) -> Connected:
        """Make connections and models.

        Args:
            command: the models that will be measured.

        Returns:
            That it is done.
        """

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point with fresh parameters, and try a step of it without communication.

        Args:
            command: the point, and the seed of its parameters and batches.

        Returns:
            Whether the step fits into memory, and the number of parameters if this member has them.
        """

    def train(self, command: Train) -> Trained:
        """Train some steps, each timed.

        Args:
            command: how many, and whether from fresh parameters.

        Returns:
            Step times in ms of the workers that this member reports for, if any, and the last step's loss.
        """

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; one member tests and saves them.

        Args:
            command: whether to test them, and where to save them.

        Returns:
            The hash if this member has parameters, and the test's result if it has tested them.
        """


class Idle:
    """A member that has nothing to do for a command: its framework does it all, or another member."""

    def connect(self, command: Connect) -> Connected:
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        return Prepared(fits=True)

    def train(self, command: Train) -> Trained:
        return Trained()

    def conclude(self, command: Conclude) -> Concluded:
        return Concluded()


def of_role(members: Mapping[str, Callable[[Assignment], Member]]) -> Callable[[Assignment], Member]:
    """Choose members by the roles of their assignments.

    Args:
        members: what makes the member of each role.

    Returns:
        What makes the member of an assignment.
    """
    return lambda assignment: members[assignment.role](assignment)


def work(
    address: str,
    rank: int,
    member_of: Callable[[Assignment], Member],
    versions: Callable[[Assignment], dict[str, str]],
    *,
    reconnects: bool,
    why_not: Callable[[Assignment], str | None] = lambda assignment: None,
) -> None:
    """Run a member that trains, until Stop comes.

    Args:
        address: of the control socket.
        rank: of this member.
        member_of: makes the member of its assignment.
        versions: of the libraries that it computes with.
        reconnects: whether `connect` replaces existing connections.
        why_not: why the member cannot do what its assignment says (None: it can).
    """
    control = Control(address, rank)
    assignment = control.assignment()
    if why := why_not(assignment):
        control.refuse(why)
    member = member_of(assignment)
    say_ready(control, versions(assignment), reconnects=reconnects)
    serve(control, commands_of(member))


def say_ready(control: Control, versions: dict[str, str], *, reconnects: bool) -> None:
    """Report that this member is ready.

    Args:
        control: its connection to the supervisor.
        versions: of the libraries that it computes with, by name.
        reconnects: whether `connect` replaces existing connections.
    """
    control.send(Ready(versions, reconnects, slice_ms()))


def await_turn(index: int, command: Train) -> None:
    """Wait until this worker is to begin its steps, if workers begin one after another.

    Args:
        index: of the worker, from 0.
        command: by how much each begins later than the one before it.
    """
    time.sleep(index * command.delay_s)


def serve(control: Control, carry_out: Callable[[Command], Reply]) -> None:
    """Answer each command; when Stop comes, end the process without its exit handlers.

    Frameworks may abort, or wait for others, in clean-ups of their own. At that time everything has been reported, or
    the error that ends the worker has been written to its log.

    Args:
        control: the connection to the supervisor.
        carry_out: makes the reply to a command; if it raises, the process ends with status 1.
    """
    try:
        while not isinstance(command := control.command(), Stop):
            control.send(carry_out(command))
    except Exception:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def commands_of(member: Member) -> Callable[[Command], Reply]:
    """Make the function that carries out commands by a member's methods.

    Args:
        member: of a group that trains.

    Returns:
        A function from a command to its reply; it raises TypeError for a command that such a member does not know.
    """

    def carry_out(command: Command) -> Reply:
        match command:
            case Connect():
                return member.connect(command)
            case Prepare():
                return member.prepare(command)
            case Train():
                return member.train(command)
            case Conclude():
                return member.conclude(command)
        raise TypeError(f"a member that trains cannot carry out {command}")

    return carry_out
