"""How a Horovod worker, of any framework, joins the others of its group over Gloo.

Horovod's own launcher would start the workers by ssh and give each the variables by which it finds the others. Here
each process sets them itself, and the first worker serves the store in which Gloo's addresses are exchanged.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.listener import await_listener

CYCLE_MS = (
    1.0  # Horovod's default: how often it looks for gradients, and asks whether other workers have them
)


@contextmanager
def meeting(assignment: Assignment, number: int) -> Iterator[None]:
    """Serve or find the rendezvous in which workers initialise Horovod; it lasts until each of them is initialised.

    Each time has its own port, so that no worker finds what an earlier time has left in its store.

    Args:
        assignment: of this worker.
        number: how many times this group has been initialised before.

    Yields:
        Nothing; Horovod's environment variables are set.
    """
    host, first_port = assignment.rendezvous.rsplit(":", 1)
    port = int(first_port) + number
    rank, size = assignment.rank, assignment.world_size
    os.environ |= {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": f"{assignment.timeout_s:.0f}",
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": str(rank),
        "HOROVOD_CROSS_SIZE": str(size),
        "HOROVOD_CYCLE_TIME": f"{CYCLE_MS * assignment.dilation:g}",  # it is real time, which dilation stretches
        "HOROVOD_HOSTNAME": f"h{rank}",  # not the machine's, which emulated hosts share
    }
    if rank > 0:
        await_listener(f"{host}:{port}", assignment.timeout_s)
        yield
        return
    with RendezvousHTTPServer((host, port), RendezvousHandler, verbose=False) as store:
        Thread(target=store.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield
        finally:
            store.shutdown()
