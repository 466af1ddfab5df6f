"""A process that imports a framework once and forks the workers of all hosts: 64 take little longer to start than one.

    python -m ddlbench.workers.common.fork_server MODULE

Its input is `StartMember` messages, and it answers each with `Started`. A worker is no child of this process. The
supervisor adopts it as an orphan, and so sees its end.
"""

import os
import resource
import sys
from importlib import import_module

from ddlbench.protocol.channel import Closed, LineChannel
from ddlbench.protocol.messages import Started, StartMember
from ddlbench.system.calls import set_network_namespace, set_process_name
from ddlbench.workers.common.scheduler_slice import dilate_slice


def main(module: str) -> None:
    """Import the module of the workers, and start one worker for each message, until the input is closed.

    Args:
        module: dotted name; each worker calls its `main(control, rank)`.
    """
    worker = import_module(module)
    channel = LineChannel(sys.stdin.buffer, sys.stdout.buffer, kinds=(StartMember,))
    while True:
        try:
            member = channel.receive()
        except Closed:
            return
        process = fork_orphan()
        if process == 0:
            become(member)
            worker.main(member.control, member.rank)
            return
        channel.send(Started(process))


def fork_orphan() -> int:
    """Fork a process whose parent has already ended; return its process id here, and 0 in the new process."""
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


def become(member: StartMember) -> None:
    """Make this process a worker on its host: log, variables, session, network namespace, cores, slice, memory limit.

    Args:
        member: the host's limits, and what is the member's own.
    """
    log = os.open(member.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, standard)
    # Close these two only: a library may hold another descriptor, and would later close what has taken its number.
    for opened in (nothing, log):
        os.close(opened)
    os.environ.update(member.variables)
    set_process_name(f"ddlbench-rank{member.rank}")
    os.setsid()  # the kernel divides a core that hosts share fairly between sessions
    if member.namespace:
        namespace = os.open(member.namespace, os.O_RDONLY)
        set_network_namespace(namespace)
        os.close(namespace)
    os.sched_setaffinity(0, member.cores)
    if member.core_share < 1:
        dilate_slice(1 / member.core_share)
    resource.setrlimit(resource.RLIMIT_DATA, (member.memory_bytes, member.memory_bytes))


if __name__ == "__main__":
    main(sys.argv[1])
