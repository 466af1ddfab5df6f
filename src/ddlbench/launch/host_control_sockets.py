"""The control socket of a worker group in a sandbox: one in every host's network namespace, all with the same name.

It is an abstract Unix socket: containers need no file for it, and no file remains after it. Only a process in that
namespace can connect.
"""

import os
import secrets
import socket
from collections.abc import Iterable
from contextlib import ExitStack

from ddlbench.launch.control_socket import ControlSocket
from ddlbench.protocol.messages import FROM_MEMBER, Hello
from ddlbench.system.namespaces import entered, own_namespace


def host_control_sockets(namespaces: Iterable[int | None]) -> ControlSocket[Hello]:
    """Listen in network namespaces.

    Args:
        namespaces: by descriptor (None: our own); those that are the same have one socket.

    Returns:
        The control socket, which listens already.
    """
    name = f"ddlbench-{secrets.token_hex(8)}"
    with ExitStack() as on_error:
        listeners = [on_error.enter_context(_listening(each, name)) for each in set(namespaces)]
        on_error.pop_all()
    return ControlSocket(listeners, f"@{name}", greetings=(Hello,), kinds=FROM_MEMBER)


def _listening(namespace: int | None, name: str) -> socket.socket:
    own = own_namespace()
    try:
        with entered(own if namespace is None else namespace):
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    finally:
        os.close(own)
    listener.bind("\0" + name)
    listener.listen(socket.SOMAXCONN)
    return listener
