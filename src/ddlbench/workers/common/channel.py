"""The line between a worker and its supervisor: JSON, one object a line, over a Unix socket, or TCP between machines.

A worker sends `hello`, gets its job, and from then on answers one command at a time. A thread of its own says every
second that it is alive.
"""

import json
import os
import socket
import threading
import time
from typing import Any, NoReturn

Message = dict[str, Any]
HEARTBEAT_S = 1.0
_KNOCK_S = 30.0


def knock(control: str) -> tuple[socket.socket, str | None]:
    """A connection to a door, and the token that opens it (None where none is needed)."""
    if not control.startswith("tcp://"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect("\0" + control[1:] if control.startswith("@") else control)
        return connection, None
    token, _, where = control.removeprefix("tcp://").partition("@")
    host, port = where.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), _KNOCK_S)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, token


class Channel:
    """A worker's end; usable from several threads for sending, from one for receiving.

    `control` is the address of the supervisor's door: a path, `@NAME` (abstract), or `tcp://TOKEN@HOST:PORT`.
    """

    def __init__(self, control: str, rank: int) -> None:
        self._socket, token = knock(control)
        self._incoming = self._socket.makefile("r", encoding="utf-8")
        self._sending = threading.Lock()
        self.send({"event": "hello", "rank": rank, "pid": os.getpid(), "token": token})
        threading.Thread(target=self._stay_alive, daemon=True).start()

    def send(self, message: Message) -> None:
        """Send one message; a supervisor that has gone ends the worker."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._sending:
                self._socket.sendall(line)
        except OSError:
            os._exit(1)

    def refuse(self, why: str) -> NoReturn:
        """Say why this worker cannot do what its job says, for a person, and wait to be ended."""
        self.send({"event": "refused", "why": why})
        print(why, flush=True)
        self.receive()
        os._exit(1)

    def receive(self) -> Message:
        """The next command; where the supervisor has gone, `{"do": "stop"}`."""
        line = self._incoming.readline()
        message: Message = json.loads(line) if line else {"do": "stop"}
        return message

    def _stay_alive(self) -> None:
        while True:
            time.sleep(HEARTBEAT_S)
            self.send({"event": "alive"})
