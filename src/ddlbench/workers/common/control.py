"""A worker's end of its control socket: it says hello, gets its assignment, and answers one command at a time.

A thread of its own says every second that the worker is alive.
"""

import os
import threading
import time
from typing import NoReturn

from ddlbench.protocol.channel import Closed, LineChannel, connect
from ddlbench.protocol.messages import COMMANDS, Alive, Assignment, Command, FromMember, Hello, Refused, Stop

HEARTBEAT_S = 1.0


class Control:
    """The connection to the supervisor; several threads may send, one receives.

    Args:
        address: of the control socket (see `protocol.channel.connect`).
        rank: of this member of the worker group.
    """

    def __init__(self, address: str, rank: int) -> None:
        connection, token = connect(address)
        self._channel: LineChannel[Assignment | Command] = LineChannel(
            connection, kinds=(Assignment, *COMMANDS)
        )
        self.send(Hello(rank, os.getpid(), token))
        threading.Thread(target=self._stay_alive, daemon=True).start()

    def send(self, message: FromMember) -> None:
        """Send a message; if the supervisor is gone, this process ends."""
        try:
            self._channel.send(message)
        except OSError:
            os._exit(1)

    def assignment(self) -> Assignment:
        """What this member is to be; if the supervisor is gone, this process ends."""
        received = self._receive()
        if not isinstance(received, Assignment):
            os._exit(0)
        return received

    def command(self) -> Command:
        """The next command; `Stop` if the supervisor is gone."""
        received = self._receive()
        assert not isinstance(received, Assignment)
        return received

    def refuse(self, why: str) -> NoReturn:
        """Say why this member cannot do what its assignment says, for a person, and wait to be ended."""
        self.send(Refused(why))
        print(why, flush=True)
        self._receive()
        os._exit(1)

    def _receive(self) -> Assignment | Command:
        try:
            return self._channel.receive()
        except Closed:
            return Stop()

    def _stay_alive(self) -> None:
        while True:
            time.sleep(HEARTBEAT_S)
            self.send(Alive())
