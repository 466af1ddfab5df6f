"""The point-to-point probe in NetPIPE's way: how long TCP messages of 1 byte to 8 MB take from one host to another.

A message goes to and fro, and half of that is its one-way time (Snell, Mikler and Gustafson, "NetPIPE: A Network
Protocol Independent Performance Evaluator", 1996). Sizes are NetPIPE's: powers of two and what lies half-way between,
each also three bytes smaller and larger. Unlike NetPIPE, it takes all sizes in turn, in random order, again and again:
so a moment in which the machine was busy falls on single values, and their spread is known.
"""

import random
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from time import perf_counter

from ddlbench.errors import DdlbenchError

LARGEST_BYTES = 8 << 20
_PERTURBATION_BYTES = 3
_FIRST_PERTURBED_BYTES = 16
_HEADER = struct.Struct("!QQ")  # size of a message, and how many of them go to and fro
_BATCH_S = 0.003  # a value is the mean over at least that long, so that the clock counts for nothing
_MOST_TRIPS = 5000
_SECONDS_AND_MICROSECONDS = "ll"

Trips = dict[int, list[float]]


class PeerVanished(DdlbenchError):
    """The other end closed the connection, or has been silent for too long."""


def sizes(largest_bytes: int = LARGEST_BYTES) -> list[int]:
    """NetPIPE's message sizes in bytes, from 1 to a few more than `largest_bytes`."""
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
    """A socket that waits for a probe; port 0 takes one that is free."""
    return socket.create_server((address, port))


def answer(listener: socket.socket, timeout_s: float) -> None:
    """Send back what one probe sends, until it is done. Raises PeerVanished where it does not come or falls silent."""
    listener.settimeout(timeout_s)
    try:
        connection, peer = listener.accept()
    except TimeoutError:
        raise PeerVanished(f"no probe has come within {timeout_s:g} s") from None
    with closing(connection), _told_as_vanished(peer[0]):
        _prepare(connection, timeout_s)
        header = bytearray(_HEADER.size)
        while True:
            _receive(connection, memoryview(header))
            size, trips = _HEADER.unpack(header)
            if trips == 0:
                return
            message = memoryview(bytearray(size))
            for _ in range(trips):
                _receive(connection, message)
                connection.sendall(message)


def probe(
    address: str,
    port: int,
    wanted: Sequence[int],
    *,
    needs_more: Callable[[Sequence[float]], bool],
    timeout_s: float,
    seed: int = 1,
) -> tuple[Trips, PeerVanished | None]:
    """One-way times in seconds of each size, as many as `needs_more` asks for; each is a mean over some milliseconds.

    Where the peer vanishes, what was measured until then comes with the error. Raises PeerVanished where it cannot be
    reached at all.
    """
    times_s: Trips = {size: [] for size in wanted}
    try:
        connection = socket.create_connection((address, port), timeout_s)
    except OSError as error:
        raise PeerVanished(f"{address} port {port} cannot be reached: {error.strerror or error}") from error
    order = random.Random(seed)
    trips = dict.fromkeys(wanted, 1)
    message = memoryview(bytearray(max(wanted)))
    try:
        with closing(connection), _told_as_vanished(address):
            _prepare(connection, timeout_s)
            for size in wanted:  # windows open, and it shows how many trips fill a batch
                once_s = _one_way_s(connection, message[:size], 1)
                trips[size] = max(1, min(_MOST_TRIPS, round(_BATCH_S / (2 * once_s))))
            while todo := [size for size in wanted if needs_more(times_s[size])]:
                order.shuffle(todo)
                for size in todo:
                    times_s[size].append(_one_way_s(connection, message[:size], trips[size]))
            connection.sendall(_HEADER.pack(0, 0))
    except PeerVanished as error:
        return times_s, error
    return times_s, None


def _one_way_s(connection: socket.socket, message: memoryview, trips: int) -> float:
    connection.sendall(_HEADER.pack(len(message), trips))
    began = perf_counter()
    for _ in range(trips):
        connection.sendall(message)
        _receive(connection, message)
    return (perf_counter() - began) / trips / 2


@contextmanager
def _told_as_vanished(peer: str) -> Iterator[None]:
    """What goes wrong with a connection, in words."""
    try:
        yield
    except BlockingIOError:  # what the kernel's time-outs are told as
        raise PeerVanished(f"{peer} has been silent for too long") from None
    except ConnectionError as error:
        raise PeerVanished(f"{peer} has closed the connection") from error


def _prepare(connection: socket.socket, timeout_s: float) -> None:
    """No delay for small messages; the kernel's own time-outs, as Python's would cost a system call each time."""
    connection.setblocking(True)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    limit = struct.pack(_SECONDS_AND_MICROSECONDS, int(timeout_s), int(timeout_s % 1 * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _receive(connection: socket.socket, message: memoryview) -> None:
    """Fill `message`; one system call where the kernel has all of it in time."""
    received = connection.recv_into(message, 0, socket.MSG_WAITALL)
    while received < len(message):
        count = connection.recv_into(message[received:], 0, socket.MSG_WAITALL)
        if count == 0:
            raise ConnectionResetError
        received += count
