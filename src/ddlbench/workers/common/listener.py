"""Waiting until another process listens, or the network does."""

import fcntl
import socket
import struct
import time

_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40


def await_listener(address: str, timeout_s: float) -> None:
    """Wait until somebody listens at `host:port`; frameworks sleep for long before they try a second time."""
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
    """Wait until the kernel says that an interface runs, which it says up to a second after that carries packets."""
    deadline = time.monotonic() + timeout_s
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        while time.monotonic() < deadline:
            asked = struct.pack("16sh14x", interface.encode(), 0)
            _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))
            if flags & _IFF_RUNNING:
                return
            time.sleep(0.02)
