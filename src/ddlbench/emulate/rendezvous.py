"""Horovod's store on an emulated host, in a process of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context

from ddlbench.emulate.variables import RENDEZVOUS_PORT
from ddlbench.system.namespaces import entered
from ddlbench.system.processes import die_with_parent
from ddlbench.workers.horovod.store import Store


@contextmanager
def serving(address: str, namespace: int) -> Iterator[None]:
    """Serve the store on a host, for the length of a `with`.

    Args:
        address: of the host.
        namespace: its network namespace, a file descriptor.

    Yields:
        Nothing; connections are accepted.

    Raises:
        OSError: the port cannot be opened.
    """
    with entered(namespace):
        store = Store((address, RENDEZVOUS_PORT))
    process = get_context("fork").Process(target=_serve, args=(store,), daemon=True)
    with store:
        process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _serve(store: Store) -> None:
    die_with_parent()
    store.serve_forever()
