"""A worker's end of its control socket: it sends Hello, receives its assignment, and answers one command at a time.

A second thread sends a heartbeat every second, as long as the supervisor reads them. While it is busy elsewhere, with
another group or with a link, the control socket holds about 70 of them; more would say no more.
"""

import os
import threading
import time
from typing import NoReturn

from ddlbench.protocol.channel import Closed, LineChannel, connect
from ddlbench.protocol.messages import COMMANDS, Alive, Assignment, Command, FromMember, Hello, Refused, Stop
from ddlbench.workers.common.progress import made_steps

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
        """Send a message; if the supervisor is gone, end this process.

        Args:
            message: a reply, or one that needs no command.
        """
        try:
            self._channel.send(message)
        except OSError:
            os._exit(1)

    def beat(self) -> None:
        """Say that this process is alive, unless the supervisor has not read that yet; end if it is gone."""
        try:
            self._channel.offer(Alive(made_steps()))
        except OSError:
            os._exit(1)

    def assignment(self) -> Assignment:
        """Receive this member's assignment; if the supervisor is gone, end this process."""
        received = self._receive()
        if not isinstance(received, Assignment):
            os._exit(0)
        return received

    def command(self) -> Command:
        """Receive the next command; it is `Stop` if the supervisor is gone."""
        received = self._receive()
        assert not isinstance(received, Assignment)
        return received

    def refuse(self, why: str) -> NoReturn:
        """Report that this member cannot do what its assignment says, and wait to be ended.

        Args:
            why: for a person, with what to do; it is printed to the log too.
        """
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
            self.beat()
