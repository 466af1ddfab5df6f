"""Waiting until another process listens, or a network interface runs."""

import fcntl
import socket
import struct
import time

_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40


def await_listener(address: str, timeout_s: float) -> None:
    """Wait until a process listens; frameworks would sleep for long before they try a second time.

    It also returns when the time is over: the framework's own error then says what is missing.

    Args:
        address: `host:port`.
        timeout_s: how long to wait, in seconds.

    Raises:
        OSError: the address cannot be reached.
    """
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout_s).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return


def await_running(interface: str, timeout_s: float) -> None:
    """Wait until the kernel reports that an interface runs, up to a second after it begins to carry packets.

    It also returns when the time is over.

    Args:
        interface: its name, in this network namespace.
        timeout_s: how long to wait, in seconds.
    """
    deadline = time.monotonic() + timeout_s
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        while time.monotonic() < deadline:
            asked = struct.pack("16sh14x", interface.encode(), 0)
            _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))
            if flags & _IFF_RUNNING:
                return
            time.sleep(0.02)
