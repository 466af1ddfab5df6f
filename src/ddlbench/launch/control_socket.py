"""Where the members of a worker group come to, to be told what to do: a Unix socket, or TCP with a token.

From another machine only TCP leads here, to the one address that members are given. Every machine that reaches that
could knock; so who comes must say a random token, which is told to members alone and never stands in a command line.
"""

import hmac
import json
import secrets
import socket
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Message = dict[str, Any]
_HELLO_S = 20.0  # a busy machine may let a worker wait between its knock and its hello
_LONGEST_HELLO = 1 << 20  # bytes


class Door:
    """A listening socket; `address` is what a member is given to find it and to be let in.

    `host` is what other machines call this one, and None for a Unix socket at `path`.
    """

    def __init__(self, *, path: Path | None = None, host: str | None = None) -> None:
        self._token: str | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.bind(str(path))
            self._socket.listen(socket.SOMAXCONN)
            self.address = str(path)
        else:
            self._token = secrets.token_hex(16)
            self._socket = _listening(str(host))
            self.address = f"tcp://{self._token}@{host}:{self._socket.getsockname()[1]}"

    def answer(self, limit_s: float) -> tuple[socket.socket, Message] | None:
        """Who comes within `limit_s`, and its first message; None for nobody, or a stranger, who is sent away."""
        self._socket.settimeout(limit_s)
        try:
            connection, _ = self._socket.accept()
        except TimeoutError:
            return None
        connection.settimeout(_HELLO_S)
        try:
            hello = json.loads(_line(connection))
            if not self._knows(hello):
                raise ValueError("a stranger")
        except (OSError, ValueError):
            _send_away(connection)
            return None
        return connection, hello

    def _knows(self, hello: Any) -> bool:
        if not isinstance(hello, dict) or hello.get("event") != "hello":
            return False
        return self._token is None or hmac.compare_digest(
            str(hello.get("token")).encode(), self._token.encode()
        )

    def close(self) -> None:
        """Let nobody in any more; who is in stays."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _listening(host: str) -> socket.socket:
    """A socket at the address by which other machines find this one; at all of its addresses where that is not its own.

    So it is behind a router that translates addresses, and where this machine takes its own name for its loopback, as
    Debian's /etc/hosts has it, and others take it for a card.
    """
    with suppress(socket.gaierror):
        for family, *_, (address, *_) in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            if address == host or not ip_address(address).is_loopback:
                with suppress(OSError):
                    return socket.create_server((address, 0), family=family, backlog=socket.SOMAXCONN)
    return socket.create_server(("", 0), backlog=socket.SOMAXCONN)


def _send_away(connection: socket.socket) -> None:
    """Close a connection in peace: what is unread then would have it reset."""
    with suppress(OSError):
        connection.setblocking(False)
        connection.recv(_LONGEST_HELLO)
    connection.close()


def _line(connection: socket.socket) -> bytes:
    """The first line that comes, and not a byte of what comes after it: who had to wait has said that it is alive."""
    said = b""
    while not said.endswith(b"\n"):
        there = connection.recv(1 << 16, socket.MSG_PEEK)
        said += connection.recv(there.find(b"\n") + 1 or len(there)) if there else b""
        if not there or len(said) > _LONGEST_HELLO:
            raise ValueError("no hello")
    return said
