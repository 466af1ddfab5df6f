"""What every worker does: take a command from the supervisor, carry it out, answer; until it says stop."""

import os
import traceback
from collections.abc import Callable, Mapping

from ddlbench.workers.channel import Channel, Message

Command = Callable[[Message], Message]


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
