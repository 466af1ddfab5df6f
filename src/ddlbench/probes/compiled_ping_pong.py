"""The probe's exchange of messages as machine code, which Numba compiles in less than a second.

Python's own overhead is half a microsecond a message: a twentieth of a small message's time between emulated hosts.
"""

import ctypes
import socket
from functools import cache
from typing import Any

from ddlbench.probes.ping_pong import Exchange


@cache
def compiled() -> Exchange:
    """Return an Exchange that calls the system's send and recv. A call before a fork compiles it for both processes."""
    move = _compiled_move()

    def exchange(connection: socket.socket, message: memoryview, trips: int, *, begins: bool) -> None:
        address = ctypes.addressof(ctypes.c_char.from_buffer(message))
        position, end = 0, 2 * trips * len(message)
        while (position := move(connection.fileno(), address, len(message), position, end, begins)) < end:
            position += _moved(connection, message, position, begins)

    return exchange


def _moved(connection: socket.socket, message: memoryview, position: int, begins: bool) -> int:
    """Repeat in Python the call that was interrupted or has failed, which raises its exception; return the bytes moved.

    A silent peer is therefore given up after two of the kernel's time-outs.
    """
    number, offset = divmod(position, len(message))
    if (number % 2 == 0) == begins:
        return connection.send(message[offset:])
    received = connection.recv_into(message[offset:])
    if received == 0:
        raise ConnectionResetError
    return received


def _compiled_move() -> Any:
    from numba import njit, types

    call = types.intp(types.int32, types.uintp, types.uintp, types.int32)
    send: Any = types.ExternalFunction("send", call)
    recv: Any = types.ExternalFunction("recv", call)

    def move(descriptor: int, address: int, size: int, position: int, end: int, begins: bool) -> int:
        """Go on from a position in the bytes of all messages to the end, or to the first call that does nothing."""
        while position < end:
            offset = position % size
            if (position // size % 2 == 0) == begins:
                moved = send(descriptor, address + offset, size - offset, 0)
            else:
                moved = recv(descriptor, address + offset, size - offset, 0)
            if moved <= 0:
                break
            position += moved
        return position

    signature = types.int64(types.int32, types.uintp, types.int64, types.int64, types.int64, types.boolean)
    return njit(signature, nogil=True)(move)
