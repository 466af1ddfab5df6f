"""Waiting until another process listens, or a network interface runs."""

import socket
import time

from ddlbench.system.calls import interface_runs


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

    Raises:
        OSError: there is no such interface.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not interface_runs(interface):
        time.sleep(0.02)
