"""The line between a worker and its supervisor: JSON, one object a line, over a Unix socket.

A worker sends `hello`, gets its job, and from then on answers one command at a time. A thread of its own says every
second that it is alive.
"""

import json
import os
import socket
import threading
import time
from typing import Any

Message = dict[str, Any]
HEARTBEAT_S = 1.0


class Channel:
    """A worker's end; usable from several threads for sending, from one for receiving."""

    def __init__(self, path: str, rank: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._incoming = self._socket.makefile("r", encoding="utf-8")
        self._sending = threading.Lock()
        self.send({"event": "hello", "rank": rank, "pid": os.getpid()})
        threading.Thread(target=self._stay_alive, daemon=True).start()

    def send(self, message: Message) -> None:
        """Send one message; a supervisor that has gone ends the worker."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._sending:
                self._socket.sendall(line)
        except OSError:
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
