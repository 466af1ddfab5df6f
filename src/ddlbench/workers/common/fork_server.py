"""Imports a framework once, and forks the workers of all hosts from there: starting 64 takes little longer than one.

    python -m ddlbench.workers.common.fork_server MODULE

Each line of its input is a worker to start, in JSON: rank, control (its socket), the host that it belongs to
(namespace: a path or null, cores, core_share, memory_bytes), variables (environment variables of its own), and log. It
is answered by the worker's process id. The worker is not our child but our supervisor's, which collects orphans, so
that its end is seen there.
"""

import json
import os
import resource
import sys
from importlib import import_module
from typing import Any

from ddlbench.system.calls import set_network_namespace, set_process_name
from ddlbench.workers.common.scheduler_slice import dilate_slice


def main(module: str) -> None:
    """Import the module of the workers, and start one for each line of input: its `main(control, rank)`."""
    worker = import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        process = fork_orphan()
        if process == 0:
            become(order)
            worker.main(order["control"], order["rank"])
            return
        print(process, flush=True)


def fork_orphan() -> int:
    """Fork a process whose parent has ended already; returns its id here, and 0 there."""
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        orphan = os.fork()
        if orphan == 0:
            os.close(reading)
            os.close(writing)
            return 0
        os.write(writing, str(orphan).encode())
        os._exit(0)
    os.waitpid(parent, 0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        return int(answer.read())


def become(order: dict[str, Any]) -> None:
    """Make this process one of its host: log, variables, session, network namespace, cores, turns and memory limit."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, standard)
    # No others: a library that has one open would close whatever has taken its number.
    for opened in (nothing, log):
        os.close(opened)
    os.environ.update(order["variables"])
    set_process_name(f"ddlbench-rank{order['rank']}")
    os.setsid()  # a session of its own is a fair share of a core that hosts divide between them
    if order["namespace"]:
        namespace = os.open(order["namespace"], os.O_RDONLY)
        set_network_namespace(namespace)
        os.close(namespace)
    os.sched_setaffinity(0, order["cores"])
    if order["core_share"] < 1:
        dilate_slice(1 / order["core_share"])
    resource.setrlimit(resource.RLIMIT_DATA, (order["memory_bytes"], order["memory_bytes"]))


if __name__ == "__main__":
    main(sys.argv[1])
