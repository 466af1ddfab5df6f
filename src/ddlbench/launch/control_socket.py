"""Control sockets: where the members of a worker group, or node agents, connect to get commands.

A control socket is a Unix socket, an abstract one in each host's network namespace, or TCP with a token. Other machines
reach it only by TCP, at the one address that members are given. Every machine that reaches that address could connect;
so a peer must first send a random token, which only members are given and which is never in a command line.
"""

import hmac
import secrets
import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from ddlbench.protocol.channel import LONGEST_BYTES, Closed, LineChannel
from ddlbench.protocol.codec import Malformed

_LONGEST_GREETING = 1 << 20  # bytes
_HELLO_S = 20.0  # on a busy machine a worker may have to wait between connecting and sending Hello
_MOST_SILENT = (
    256  # connections; more than members that may be between connecting and Hello, fewer than descriptors
)


class Greeting(Protocol):
    """The first message of a peer; the token shows that it is a member."""

    @property
    def token(self) -> str | None:
        """What the control socket's address says."""


G = TypeVar("G", bound=Greeting)


class ControlSocket(Generic[G]):
    """Listening sockets at one address, which members are given to find them and to be accepted.

    Args:
        listeners: the sockets.
        address: as `protocol.channel.connect` takes it.
        greetings: the classes of first messages.
        kinds: the classes of all messages that may come.
        token: which a first message must have (None: it needs none).
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        address: str,
        *,
        greetings: Sequence[type[G]],
        kinds: Sequence[type],
        token: str | None = None,
    ) -> None:
        self.address = address
        self._listeners = listeners
        self._greetings = tuple(greetings)
        self._kinds = kinds
        self._token = token
        self._silent: dict[
            LineChannel[object], float
        ] = {}  # connected and still silent; each with its deadline
        for each in listeners:
            each.setblocking(False)

    def accept(self, limit_s: float) -> tuple[LineChannel[object], G] | None:
        """Accept the next peer that sends a valid first message.

        No peer has to wait for another one that is silent; a peer with an invalid message is disconnected.

        Args:
            limit_s: how long to wait, in seconds.

        Returns:
            The connection and the first message; None if no peer came in time.
        """
        deadline = monotonic() + limit_s
        while True:
            ready = self._ready(max(0.0, deadline - monotonic()))
            for listener in [each for each in self._listeners if each.fileno() in ready]:
                with suppress(OSError):  # the peer may have disconnected already
                    connection, _ = listener.accept()
                    self._silent[self._channel(connection)] = monotonic() + _HELLO_S
            for channel in list(self._silent)[:-_MOST_SILENT]:
                self._dismiss(channel)
            for channel, until in list(self._silent.items()):
                if channel.fileno() in ready and (greeting := self._greeting(channel)):
                    return channel, greeting
                if channel in self._silent and monotonic() > until:
                    self._dismiss(channel)
            if monotonic() >= deadline:
                return None

    def _ready(self, limit_s: float) -> set[int]:
        """The descriptors of listeners and of silent peers that have something, within the limit."""
        waiting = select.poll()  # select(2) takes no descriptor above 1023
        for descriptor in [each.fileno() for each in self._listeners] + [
            each.fileno() for each in self._silent
        ]:
            waiting.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in waiting.poll(limit_s * 1000)}

    def _channel(self, connection: socket.socket) -> LineChannel[object]:
        return LineChannel(connection, kinds=self._kinds, longest_bytes=_LONGEST_GREETING)

    def _greeting(self, channel: LineChannel[object]) -> G | None:
        """The first message of a peer, if it has come and is one of ours."""
        try:
            message = channel.first()
        except (Closed, Malformed):
            self._dismiss(channel)
            return None
        if message is None:
            return None
        if not isinstance(message, self._greetings) or not self._knows(message.token):
            self._dismiss(channel)
            return None
        del self._silent[channel]
        channel.longest_bytes = LONGEST_BYTES
        return message

    def _knows(self, token: str | None) -> bool:
        if self._token is None:
            return True
        sent = str(token).encode(errors="replace")  # a stranger's may have half a character
        return hmac.compare_digest(sent, self._token.encode())

    def _dismiss(self, channel: LineChannel[object]) -> None:
        del self._silent[channel]
        channel.close()

    def close(self) -> None:
        """Stop listening; accepted connections stay open."""
        for listener in self._listeners:
            listener.close()
        for channel in self._silent:
            channel.close()
        self._silent.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def unix_socket(path: Path, *, greetings: Sequence[type[G]], kinds: Sequence[type]) -> ControlSocket[G]:
    """Open a control socket at a path.

    Args:
        path: of the socket; a file that exists there is replaced.
        greetings: the classes of first messages.
        kinds: the classes of all messages that may come.

    Returns:
        The control socket, which listens already.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(socket.SOMAXCONN)
    return ControlSocket([listener], str(path), greetings=greetings, kinds=kinds)


def tcp_socket(host: str, *, greetings: Sequence[type[G]], kinds: Sequence[type]) -> ControlSocket[G]:
    """Open a control socket for other machines, with a token.

    Args:
        host: the name or address by which other machines reach this one.
        greetings: the classes of first messages.
        kinds: the classes of all messages that may come.

    Returns:
        The control socket, which listens already; its address has the token.
    """
    token = secrets.token_hex(16)
    listener = _listening(host)
    address = f"tcp://{token}@{host}:{listener.getsockname()[1]}"
    return ControlSocket([listener], address, greetings=greetings, kinds=kinds, token=token)


def _listening(host: str) -> socket.socket:
    """Listen at the address by which other machines find this one, or at all addresses if that is not its own.

    It is not its own behind a router that translates addresses. It is the loopback's if this machine resolves its own
    name to that, as in Debian's /etc/hosts, while others resolve it to a network card.
    """
    with suppress(socket.gaierror):
        for family, *_, (address, *_) in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            if address == host or not ip_address(address).is_loopback:
                with suppress(OSError):
                    return socket.create_server((address, 0), family=family, backlog=socket.SOMAXCONN)
    return socket.create_server(("", 0), backlog=socket.SOMAXCONN)
