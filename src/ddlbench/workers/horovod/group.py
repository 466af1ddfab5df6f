"""How a Horovod worker, with any framework, joins the others of its group over Gloo.

Horovod's own launcher would start the workers by ssh and set the variables by which they find each other; here each
process sets them itself, and the first worker serves the store in which Gloo's addresses are exchanged.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread

from ddlbench.protocol.messages import Assignment, Connect
from ddlbench.workers.common.listener import await_listener
from ddlbench.workers.horovod.store import Store

CYCLE_MS = 1.0  # Horovod's default: how often it looks for gradients and asks the other workers about theirs


def dilated(assignment: Assignment, command: Connect) -> Assignment:
    """Choose the time dilation of new connections, which Horovod's cycle depends on.

    Args:
        assignment: Of this process.
        command: It may say another dilation.

    Returns:
        The assignment with the dilation of the command, if it has one.
    """
    return replace(assignment, dilation=command.dilation or assignment.dilation)


@contextmanager
def meeting(assignment: Assignment, number: int) -> Iterator[None]:
    """Provide what Horovod's initialisation needs: its variables, and the store of addresses on the first worker.

    All workers must stay in this context until each of them has initialised Horovod.

    Args:
        assignment: Of this process.
        number: How many initialisations of this group came before. Each uses a port of its own, so that no worker reads
            addresses that an earlier one has left in its store.

    Yields:
        Once, when the store accepts connections, or when the assignment's timeout has passed.
    """
    host, first_port = assignment.rendezvous.rsplit(":", 1)
    port = int(first_port) + number
    rank, size, local = assignment.rank, assignment.world_size, assignment.local_size
    os.environ |= {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": f"{assignment.timeout_s:.0f}",
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": str(rank % local),
        "HOROVOD_LOCAL_SIZE": str(local),
        "HOROVOD_CROSS_RANK": str(rank // local),
        "HOROVOD_CROSS_SIZE": str(size // local),
        "HOROVOD_CYCLE_TIME": f"{CYCLE_MS * assignment.dilation:g}",  # real time, which dilation stretches
        "HOROVOD_HOSTNAME": f"h{rank // local}",  # not the machine's, which emulated hosts share
    }
    if rank > 0:
        await_listener(f"{host}:{port}", assignment.timeout_s)
        yield
        return
    with Store((host, port)) as store:
        Thread(target=store.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield
        finally:
            store.shutdown()
