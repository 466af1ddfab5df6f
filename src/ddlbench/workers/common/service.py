"""What every worker does: take a command from the supervisor, carry it out, answer; until it says stop."""

import os
import traceback
from collections.abc import Callable, Mapping

from ddlbench.workers.common.channel import Channel, Message
from ddlbench.workers.common.scheduler_slice import slice_ms

Command = Callable[[Message], Message]


def work(
    control: str,
    rank: int,
    member_of: Callable[[Message], object],
    versions: Callable[[Message], dict[str, str]],
    *,
    reconnects: bool,
    why_not: Callable[[Message], str | None] = lambda job: None,
) -> None:
    """Be the member `rank` that trains, made of the job that the supervisor at `control` gives, until it says stop.

    reconnects: whether `connect` replaces the connections that there are. why_not: why it cannot do such a job, if so.
    """
    channel = Channel(control, rank)
    job = channel.receive()
    if why := why_not(job):
        channel.refuse(why)
    member = member_of(job)
    say_ready(channel, versions(job), reconnects=reconnects)
    serve(channel, commands_of(member))


def say_ready(channel: Channel, versions: dict[str, str], *, reconnects: bool) -> None:
    """Tell the supervisor that this member is there, with what it computes, and for how long it keeps a core."""
    channel.send({"event": "ready", "reconnects": reconnects, "versions": versions, "slice_ms": slice_ms()})


def serve(channel: Channel, commands: Mapping[str, Command]) -> None:
    """Answer each command with what its function returns; at the end the process is gone, without its exit handlers.

    Frameworks may abort, or wait for others, in clean-ups of their own; by then everything has been reported, or the
    error that ends the worker has been written to its log.
    """
    try:
        while (command := channel.receive())["do"] != "stop":
            channel.send(commands[command["do"]](command))
    except Exception:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def commands_of(member: object) -> dict[str, Command]:
    """What a member that trains can be told, each carried out by its method of that name."""
    return {do: getattr(member, do) for do in ("connect", "prepare", "train", "conclude")}
