"""Messages between two processes, one a line, over a socket or a pair of pipes.

Every wait has a deadline. There is one error for a peer that has ended and one for a peer that is silent.
"""

import os
import select
import socket
from collections import deque
from collections.abc import Sequence
from threading import Lock
from time import monotonic
from typing import IO, Generic, TypeVar

from ddlbench.protocol.codec import Malformed, decode, encode

T = TypeVar("T")
_CONNECT_S = 30.0
_SEND_S = 60.0
_READ_BYTES = 1 << 20
_WRITE_BYTES = select.PIPE_BUF  # as much as a pipe takes at once if it takes anything
LONGEST_BYTES = 1 << 28  # of a line: a training's step times


class Closed(ConnectionError):
    """The peer has died, or has closed the connection."""


class Silent(TimeoutError):
    """The peer has sent nothing, or read nothing, before the deadline."""


class LineChannel(Generic[T]):
    """One end of a connection. Several threads may send; one thread receives.

    Args:
        incoming: what is read from; a socket serves both ways.
        outgoing: what is written to, if it is another file.
        kinds: the classes of the messages that may come.
        longest_bytes: of a line; a longer one is refused.
    """

    def __init__(
        self,
        incoming: socket.socket | IO[bytes],
        outgoing: IO[bytes] | None = None,
        *,
        kinds: Sequence[type[T]],
        longest_bytes: int = LONGEST_BYTES,
    ) -> None:
        self.longest_bytes = longest_bytes
        self._incoming = incoming
        self._outgoing = incoming if outgoing is None else outgoing
        self._kinds = kinds
        self._part = bytearray()  # of a line whose end has not come
        self._arrived: deque[T] = deque()
        self._is_closed = False
        self._sending = Lock()
        if isinstance(incoming, socket.socket):
            incoming.setblocking(False)

    def fileno(self) -> int:
        """Get the file descriptor that becomes readable when data come."""
        return self._incoming.fileno()

    def send(self, message: object, limit_s: float = _SEND_S) -> None:
        """Send a message.

        Args:
            message: a dataclass.
            limit_s: how long the peer may read nothing, in seconds.

        Raises:
            Closed: the peer has ended.
            Silent: the peer does not read.
        """
        with self._sending:
            self._write(encode(message), limit_s)

    def offer(self, message: object) -> bool:
        """Send a message if there is room for it, which there is not while the peer has read none for long.

        Args:
            message: a dataclass; short, so that it is not taken in parts.

        Returns:
            Whether it was sent.

        Raises:
            Closed: the peer has ended.
            Silent: a part of it was taken, and the peer does not read on.
        """
        with self._sending:
            has_room = _is_ready(self._outgoing, select.POLLOUT, 0.0)
            if has_room:
                self._write(encode(message), _SEND_S)
        return has_room

    def _write(self, line: bytes, limit_s: float) -> None:
        rest = memoryview(line)
        while rest:
            if not _is_ready(self._outgoing, select.POLLOUT, limit_s):
                raise Silent(f"nothing was taken for {limit_s:.0f} s")
            try:
                rest = rest[os.write(self._outgoing.fileno(), rest[:_WRITE_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Closed(str(error)) from error

    def receive(self, limit_s: float | None = None) -> T:
        """Wait for the next message.

        Args:
            limit_s: how long it may take to come, in seconds; None: without end.

        Returns:
            An instance of one of the expected classes.

        Raises:
            Closed: the peer has ended.
            Silent: nothing came in time.
            Malformed: the line is no message of the expected classes, or is too long.
        """
        deadline = None if limit_s is None else monotonic() + limit_s
        while not self._arrived:
            if self._is_closed:
                raise Closed("the connection is closed")
            self._read(None if deadline is None else max(0.0, deadline - monotonic()))
            if not self._arrived and deadline is not None and monotonic() >= deadline and not self._is_closed:
                raise Silent(f"nothing came for {limit_s:.0f} s")
        return self._arrived.popleft()

    def arrived(self, limit_s: float = 0.0) -> list[T]:
        """Take all messages that have come; if there is none, wait for data once.

        Args:
            limit_s: how long to wait, in seconds.

        Returns:
            The messages in order; empty if no whole message has come.

        Raises:
            Closed: the peer has ended, and all that it sent has been taken.
            Malformed: a line is no message of the expected classes, or is too long.
        """
        if not self._arrived:
            if self._is_closed:
                raise Closed("the connection is closed")
            self._read(limit_s)
            if self._is_closed and not self._arrived:
                raise Closed("the connection is closed")
        found = list(self._arrived)
        self._arrived.clear()
        return found

    def first(self) -> T | None:
        """Take the first message that has come, without waiting; None if there is none.

        Raises:
            Closed: the peer has ended, and all that it sent has been taken.
            Malformed: a line is no message of the expected classes, or is too long.
        """
        if not self._arrived:
            self._read(0.0)
        if not self._arrived and self._is_closed:
            raise Closed("the connection is closed")
        return self._arrived.popleft() if self._arrived else None

    def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        self._incoming.close()
        self._outgoing.close()

    def _read(self, limit_s: float | None) -> None:
        """Read once what is there, or comes in time."""
        if not _is_ready(self._incoming, select.POLLIN, limit_s):
            return
        try:
            read = os.read(self._incoming.fileno(), _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            read = b""
        self._is_closed = not read
        *lines, rest = (self._part + read).split(b"\n")
        self._part = rest
        if len(rest) > self.longest_bytes:
            raise Malformed(f"a line is longer than {self.longest_bytes} bytes")
        self._arrived += [decode(bytes(line), self._kinds) for line in lines]


def connect(address: str) -> tuple[socket.socket, str | None]:
    """Connect to a control socket.

    Args:
        address: a path, `@NAME` (an abstract Unix socket) or `tcp://TOKEN@HOST:PORT`.

    Returns:
        The connected socket, and the token that the first message must have (None: none is needed).

    Raises:
        OSError: no process listens there, or a TCP connection takes more than 30 s.
    """
    if not address.startswith("tcp://"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect("\0" + address[1:] if address.startswith("@") else address)
        return connection, None
    token, _, where = address.removeprefix("tcp://").partition("@")
    host, port = where.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), _CONNECT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, token


def _is_ready(file: socket.socket | IO[bytes], event: int, limit_s: float | None) -> bool:
    """Whether a file can be read or written, or has been closed, within the limit (poll: any file number)."""
    waiting = select.poll()
    waiting.register(file.fileno(), event)
    return bool(waiting.poll(None if limit_s is None else limit_s * 1000))
