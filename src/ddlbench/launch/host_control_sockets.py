"""The door of a worker group in a sandbox: one in every host's network namespace, all with the same name.

It is an abstract Unix socket: no file that a container would have to be given, and nothing that stays behind. Only who
is in that namespace can come.
"""

import os
import secrets
import select
import socket
from collections.abc import Iterable
from contextlib import ExitStack

from ddlbench.launch.control_socket import Door, Message
from ddlbench.system.namespaces import entered, own_namespace


class HostDoors(Door):
    """Listening sockets in these network namespaces (None: our own)."""

    def __init__(self, namespaces: Iterable[int | None]) -> None:
        self._token = None
        self.address = f"@ddlbench-{secrets.token_hex(8)}"
        with ExitStack() as on_error:
            self._sockets = [on_error.enter_context(self._listening(each)) for each in set(namespaces)]
            on_error.pop_all()

    def answer(self, limit_s: float) -> tuple[socket.socket, Message] | None:
        """Who comes within `limit_s`, as `Door.answer`."""
        ready, _, _ = select.select(self._sockets, [], [], limit_s)
        if not ready:
            return None
        self._socket = ready[0]
        return super().answer(limit_s)

    def close(self) -> None:
        """Let nobody in any more; who is in stays."""
        for each in self._sockets:
            each.close()

    def _listening(self, namespace: int | None) -> socket.socket:
        own = own_namespace()
        try:
            with entered(own if namespace is None else namespace):
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        finally:
            os.close(own)
        listener.bind("\0" + self.address[1:])
        listener.listen(socket.SOMAXCONN)
        return listener
