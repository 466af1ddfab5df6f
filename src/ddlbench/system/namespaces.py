"""Network namespaces by file descriptor: nothing is mounted, so nothing outlives the processes that use them."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def new_network_namespace() -> int:
    """A file descriptor of a new, empty network namespace; the caller stays in its own."""
    own = own_namespace()
    try:
        _check(_libc.unshare(_CLONE_NEWNET), "making a network namespace")
        try:
            return own_namespace()
        finally:
            enter(own)
    finally:
        os.close(own)


def enter(namespace: int) -> None:
    """Move the calling thread into the network namespace."""
    _check(_libc.setns(namespace, _CLONE_NEWNET), "entering a network namespace")


@contextmanager
def entered(namespace: int) -> Iterator[None]:
    """Be in the network namespace for the length of a `with`; sockets made there stay there."""
    own = own_namespace()
    try:
        enter(namespace)
        yield
    finally:
        enter(own)
        os.close(own)


def own_namespace() -> int:
    """A file descriptor of the network namespace in which the calling thread is."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _check(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")
