"""What every worker does: take a command from the supervisor, carry it out, answer; until it says stop."""

import os
import traceback
from collections.abc import Callable
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
        """Make connections and models."""

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point."""

    def train(self, command: Train) -> Trained:
        """Train some steps."""

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters, test and save them."""


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


def work(
    address: str,
    rank: int,
    member_of: Callable[[Assignment], Member],
    versions: Callable[[Assignment], dict[str, str]],
    *,
    reconnects: bool,
    why_not: Callable[[Assignment], str | None] = lambda assignment: None,
) -> None:
    """Be a member that trains until the supervisor says stop.

    Args:
        address: of the control socket.
        rank: of this member.
        member_of: makes the member of its assignment.
        versions: of the libraries that it computes with.
        reconnects: whether `connect` replaces the connections that there are.
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
    """Tell the supervisor that this member is ready, with what it computes, and how long it keeps a core."""
    control.send(Ready(versions, reconnects, slice_ms()))


def serve(control: Control, carry_out: Callable[[Command], Reply]) -> None:
    """Answer each command; at the end the process is gone, without its exit handlers.

    Frameworks may abort, or wait for others, in clean-ups of their own; by then everything has been reported, or the
    error that ends the worker has been written to its log.
    """
    try:
        while not isinstance(command := control.command(), Stop):
            control.send(carry_out(command))
    except Exception:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def commands_of(member: Member) -> Callable[[Command], Reply]:
    """What carries out a command that a member which trains can be given."""

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
