"""The point-to-point probe after NetPIPE's method: one-way times of TCP messages from 1 byte to 8 MB between two hosts.

A message goes there and back, and half of that is its one-way time (Snell, Mikler and Gustafson, "NetPIPE: A Network
Protocol Independent Performance Evaluator", 1996). As in NetPIPE 3.7, both ends write a message whole, read it into the
memory that they send from, whose pages are in use before the clock starts, and sleep while they wait. Sizes are
NetPIPE's: powers of two and the middle between each two, each also three bytes smaller and larger.

NetPIPE stays with a size for three tenths of a second and reports the fastest third. This probe takes all sizes in
turn, from the smallest to the largest as NetPIPE does, and repeats that. A moment in which the machine is busy thus
affects single values only, and their spread is known. One connection serves all rounds, as TCP's windows open slowly.
"""

import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from math import ceil
from time import perf_counter
from typing import Protocol

from ddlbench.errors import DdlbenchError

LARGEST_BYTES = 8 << 20
MOST_BYTES = 1 << 30  # a peer cannot make `answer` allocate more memory than that
_PERTURBATION_BYTES = 3
_FIRST_PERTURBED_BYTES = 16
_HEADER = struct.Struct("!QQ")  # size of a message, and the number of round trips
_BATCH_S = 0.004  # a value is the mean over at least that long, so that reading the clock does not matter
_MOST_TRIPS = 5000
_OPENING_SHARE = 4  # a quarter of a batch comes first and does not count: TCP's windows open
_FIRST_OPENING_TRIPS = 2
_SECONDS_AND_MICROSECONDS = "ll"

Trips = dict[int, list[float]]


class Exchange(Protocol):
    """Sends a message there and back `trips` times; `begins`: this end sends first. Raises OSError."""

    def __call__(
        self, connection: socket.socket, message: memoryview, trips: int, *, begins: bool
    ) -> None: ...


class PeerVanished(DdlbenchError):
    """The other end closed the connection, cannot be reached, or has been silent for too long."""


def sizes(largest_bytes: int = LARGEST_BYTES) -> list[int]:
    """Return NetPIPE's message sizes.

    Args:
        largest_bytes: the largest size, in bytes, that is not perturbed; perturbed ones exceed it by up to 3 bytes.

    Returns:
        Sizes in bytes from 1, in ascending order.
    """
    found = {1, 2, 3}
    base = 4
    while base <= largest_bytes:
        for each in (base, base * 3 // 2):
            if each <= largest_bytes:
                spread = _PERTURBATION_BYTES if each >= _FIRST_PERTURBED_BYTES else 0
                found |= {each - spread, each, each + spread}
        base *= 2
    return sorted(size for size in found if size <= largest_bytes + _PERTURBATION_BYTES)


def listening(address: str, port: int = 0) -> socket.socket:
    """Open the socket at which `answer` waits for a probe.

    Args:
        address: the local address; an empty string: all addresses.
        port: the TCP port; 0: a free one.

    Returns:
        The listening socket.
    """
    return socket.create_server((address, port))


def exchange(connection: socket.socket, message: memoryview, trips: int, *, begins: bool) -> None:
    """Send a message there and back, in Python alone: half a microsecond of overhead a message (`compiled` is faster).

    Args:
        connection: a connected socket that blocks.
        message: what is sent; what is received overwrites it.
        trips: how many round trips.
        begins: whether this end sends first.

    Raises:
        OSError: the connection fails or times out.
    """
    send, receive, size = connection.send, connection.recv_into, len(message)
    if not begins:
        _fill(connection, message)
    for _ in range(trips - (not begins)):  # as few statements as possible: Python's own time counts
        if (sent := send(message)) != size:
            connection.sendall(message[sent:])
        if (received := receive(message)) != size:
            _fill(connection, message[received:])
    if not begins:
        connection.sendall(message)


def answer(listener: socket.socket, timeout_s: float, *, exchange: Exchange = exchange) -> None:
    """Send back what one probe sends, until it is done.

    Args:
        listener: the socket of `listening`.
        timeout_s: how long to wait for the probe, and how long it may be silent.
        exchange: how messages are sent and received.

    Raises:
        PeerVanished: no probe comes, or it is silent, closes the connection or requests messages that are too large.
    """
    listener.settimeout(timeout_s)
    try:
        connection, peer = listener.accept()
    except TimeoutError:
        raise PeerVanished(f"no probe has come within {timeout_s:g} s") from None
    with closing(connection), _reported_as_vanished(peer[0]):
        _prepare(connection, timeout_s)
        header, memory = memoryview(bytearray(_HEADER.size)), _memory(0)
        while True:
            _fill(connection, header)
            size, trips = _HEADER.unpack(header)
            if trips == 0:
                return
            if size > MOST_BYTES + _PERTURBATION_BYTES:
                raise PeerVanished(f"{peer[0]} asks for messages of {size} bytes; {MOST_BYTES} are the most")
            if size > len(memory):
                memory = _memory(size)
            connection.sendall(header)  # the clock starts when both ends are ready
            exchange(connection, memory[:size], trips, begins=False)


def probe(
    address: str,
    port: int,
    wanted: Sequence[int],
    *,
    needs_more: Callable[[Sequence[float]], bool],
    timeout_s: float,
    exchange: Exchange = exchange,
) -> tuple[Trips, PeerVanished | None]:
    """Measure one-way times to the host that runs `answer`.

    Args:
        address: the host's address.
        port: its TCP port.
        wanted: message sizes in bytes.
        needs_more: whether a size with these values, in s, is measured again.
        timeout_s: how long to wait for the connection, and how long the peer may be silent.
        exchange: how messages are sent and received.

    Returns:
        One-way times in s by size, each a mean over some milliseconds; and the error if the peer vanishes on the way
        (None: it did not), with what was measured until then.

    Raises:
        PeerVanished: the host cannot be reached at all.
    """
    times_s: Trips = {size: [] for size in sorted(wanted)}
    memory = _memory(max(wanted))
    trips = dict.fromkeys(wanted, _OPENING_SHARE * _FIRST_OPENING_TRIPS)
    try:
        connection = socket.create_connection((address, port), timeout_s)
    except OSError as error:
        raise PeerVanished(f"{address} port {port} cannot be reached: {error.strerror or error}") from error
    try:
        with closing(connection), _reported_as_vanished(address):
            _prepare(connection, timeout_s)
            one_way_s = partial(_one_way_s, exchange, connection)
            while todo := [size for size in times_s if needs_more(times_s[size])]:
                for size in todo:
                    opening_s = one_way_s(memory[:size], ceil(trips[size] / _OPENING_SHARE))
                    once_s = one_way_s(memory[:size], _trips_of_a_batch(opening_s))
                    times_s[size].append(once_s)
                    trips[size] = _trips_of_a_batch(once_s)
            connection.sendall(_HEADER.pack(0, 0))
    except PeerVanished as error:
        return times_s, error
    return times_s, None


def _trips_of_a_batch(once_s: float) -> int:
    return max(1, min(_MOST_TRIPS, round(_BATCH_S / (2 * once_s))))


def _one_way_s(exchange: Exchange, connection: socket.socket, message: memoryview, trips: int) -> float:
    """Return half the mean time of that many round trips, in s."""
    header = memoryview(bytearray(_HEADER.pack(len(message), trips)))
    connection.sendall(header)
    _fill(connection, header)
    began = perf_counter()
    exchange(connection, message, trips, begins=True)
    return (perf_counter() - began) / trips / 2


def _fill(connection: socket.socket, message: memoryview) -> None:
    """Receive all of `message`."""
    while message:
        received = connection.recv_into(message)
        if received == 0:
            raise ConnectionResetError
        message = message[received:]


def _memory(size: int) -> memoryview:
    """Return memory whose pages are in use."""
    return memoryview(bytearray(b"\1") * size)


@contextmanager
def _reported_as_vanished(peer: str) -> Iterator[None]:
    """What goes wrong with a connection, in words."""
    try:
        yield
    except BlockingIOError:  # what the kernel's time-outs appear as
        raise PeerVanished(f"{peer} has been silent for too long") from None
    except ConnectionError as error:
        raise PeerVanished(f"{peer} has closed the connection") from error
    except OSError as error:  # a host or a route that is gone
        raise PeerVanished(f"{peer} cannot be reached any more: {error.strerror or error}") from error


def _prepare(connection: socket.socket, timeout_s: float) -> None:
    """No delay for small messages; the kernel's own time-outs, as Python's would cost a system call each time."""
    connection.setblocking(True)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    limit = struct.pack(_SECONDS_AND_MICROSECONDS, int(timeout_s), max(1, int(timeout_s % 1 * 1e6)))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
