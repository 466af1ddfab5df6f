"""Network namespaces by file descriptor: nothing is mounted, so nothing outlives the processes that use them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ddlbench.system.calls import set_network_namespace, unshare_network


def new_network_namespace() -> int:
    """Make a new, empty network namespace; the calling thread stays in its own.

    Returns:
        A file descriptor, which the caller closes. The namespace ends with the last descriptor and process in it.

    Raises:
        OSError: the kernel refused; without root a user namespace is needed around it.
    """
    own = own_namespace()
    try:
        unshare_network()
        try:
            return own_namespace()
        finally:
            enter(own)
    finally:
        os.close(own)


def enter(namespace: int) -> None:
    """Move the calling thread into a network namespace.

    Args:
        namespace: a file descriptor of it.

    Raises:
        OSError: the kernel refused.
    """
    set_network_namespace(namespace)


@contextmanager
def entered(namespace: int) -> Iterator[None]:
    """Be in a network namespace inside a `with` block; sockets that are made there stay there.

    Args:
        namespace: a file descriptor of it.

    Yields:
        Nothing; the calling thread is in the namespace until the block ends.

    Raises:
        OSError: the kernel refused.
    """
    own = own_namespace()
    try:
        enter(namespace)
        yield
    finally:
        enter(own)
        os.close(own)


def own_namespace() -> int:
    """Open the network namespace of the calling thread; the caller closes the file descriptor."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
