"""Horovod's own programs on emulated hosts."""

import os
import subprocess
from contextlib import ExitStack
from typing import Any

from ddlbench.launch.network_variables import network_variables
from ddlbench.system.namespaces import enter
from inside.star import carried, hosts

HOROVOD_RENDEZVOUS = """
import signal
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer

server = RendezvousServer()
print(server.start(), flush=True)
server.init(get_host_assignments(parse_hosts("h0:1,h1:1"), 2))
signal.pause()
"""
HOROVOD_SUM = {  # of a million floats: rank 0 has ones, rank 1 twos; prints one of them
    "horovod_torch": """
import horovod.torch as hvd, torch
hvd.init()
print(hvd.allreduce(torch.full((1 << 20,), hvd.rank() + 1.0), op=hvd.Sum)[7].item())
""",
    "horovod_tensorflow": """
import horovod.tensorflow as hvd, tensorflow as tf
hvd.init()
print(float(hvd.allreduce(tf.fill((1 << 20,), hvd.rank() + 1.0), op=hvd.Sum)[7]))
""",
}


def horovod_sum(python: str, framework: str) -> dict[str, Any]:
    """What each rank of Horovod has as the sum over two emulated hosts, and what the first of them sent meanwhile."""
    with hosts(None) as star, ExitStack() as stack:

        def start(code: str, host: int, **variables: str) -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [python, "-c", code],
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=lambda: enter(star.namespaces[host]),
            )
            stack.callback(process.kill)
            return process

        store = start(HOROVOD_RENDEZVOUS, 0)
        assert store.stdout is not None
        variables = {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": star.addresses[0],
            "HOROVOD_GLOO_RENDEZVOUS_PORT": store.stdout.readline().strip(),
            "HOROVOD_GLOO_TIMEOUT_SECONDS": "60",
            "HOROVOD_SIZE": "2",
            "HOROVOD_LOCAL_RANK": "0",
            "HOROVOD_LOCAL_SIZE": "1",
            "HOROVOD_CROSS_SIZE": "2",
            **network_variables("eth0"),
        }
        before = carried(star)[0]
        ranks = [
            start(
                HOROVOD_SUM[framework],
                rank,
                HOROVOD_RANK=str(rank),
                HOROVOD_CROSS_RANK=str(rank),
                HOROVOD_HOSTNAME=f"h{rank}",
                **variables,
            )
            for rank in (0, 1)
        ]
        said = [rank.communicate(timeout=800)[0].split() for rank in ranks]
        return {
            "sums": [float(words[-1]) if words else None for words in said],
            "sent_bytes": carried(star)[0] - before,
        }
