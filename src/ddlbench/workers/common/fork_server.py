"""A process that imports a framework once and forks the workers of all hosts: 64 take little longer to start than one.

    python -m ddlbench.workers.common.fork_server MODULE

Its input is the messages STARTS, and it answers each with `Started`. Each host has a process here that forks its
members and its filler, so that all of them are one session, and one control group where that is asked for: between
these the kernel divides a core that hosts share fairly. A worker is no child of these processes. The supervisor adopts
it as an orphan, and so sees its end.
"""

import gc
import os
import resource
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ddlbench.protocol.channel import Closed, LineChannel
from ddlbench.protocol.fork_messages import STARTS, Start, Started, StartFiller, StartMember, StartSpinner
from ddlbench.system.calls import set_network_namespace, set_process_name
from ddlbench.system.processes import die_with_parent
from ddlbench.workers.common.filler import fill, spin
from ddlbench.workers.common.scheduler_slice import shorten_slice


def main(module: str) -> None:
    """Import the module of the workers, and start one process for each message, until the input is closed.

    Args:
        module: dotted name; each worker calls its `main(control, rank)`.
    """
    with standard_output_at_standard_error():
        worker = imported(module)
    channel: LineChannel[Start] = LineChannel(sys.stdin.buffer, sys.stdout.buffer, kinds=STARTS)
    hosts: dict[str, LineChannel[Started]] = {}
    while True:
        try:
            start = channel.receive()
        except Closed:
            return
        if start.host not in hosts:
            hosts[start.host] = new_host(worker, hosts.values(), start)
        hosts[start.host].send(start)
        channel.send(hosts[start.host].receive())


@contextmanager
def standard_output_at_standard_error() -> Iterator[None]:
    """Let what is printed, by libraries too, go to standard error for a while: answers go to standard output.

    Yields:
        Nothing; the body of the `with` runs.
    """
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(answers, 1)
        os.close(answers)


def imported(module: str) -> ModuleType:
    """Import a module, and exempt all that it has made from garbage collection: it stays until the end.

    A third of the import of a framework is collections that find nothing. In each fork, a collection would look at
    every object of the framework, and so copy its memory: 0.15 s with PyTorch, in the middle of a step.

    Args:
        module: dotted name.

    Returns:
        The module.
    """
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def new_host(
    worker: ModuleType, others: Iterable[LineChannel[Started]], start: Start
) -> LineChannel[Started]:
    """Fork a host's process, the first of a new session, on a core of the host.

    A process that begins elsewhere leaves its load there. As long as the kernel counts that, seconds if that core is
    idle, the host weighs less on its own core, and its neighbours get some of its share.

    Args:
        worker: the module of the workers.
        others: the connections to other hosts' processes, which the new process closes.
        start: the first process of the host: what it says of cores and of the control group holds for the host.

    Returns:
        The connection to it.
    """
    here, there = socket.socketpair()
    if os.fork():
        there.close()
        return LineChannel(here, kinds=(Started,))
    die_with_parent()
    here.close()
    for each in others:
        each.close()
    os.sched_setaffinity(0, cores_of(start))
    os.setsid()
    if start.control_group:
        join(start.control_group)
    serve(worker, LineChannel(there, kinds=STARTS))
    sys.exit()


def cores_of(start: Start) -> Sequence[int]:
    """Say where a process may run.

    Args:
        start: asks for it.

    Returns:
        The numbers of its cores.
    """
    return start.cores if isinstance(start, StartMember) else [start.core]


def join(control_group: str) -> None:
    """Let this process join a control group. If the kernel refuses, a line on standard error says so.

    Args:
        control_group: its folder.
    """
    try:
        Path(control_group, "cgroup.procs").write_text("0")
    except OSError as error:
        print(f"{control_group}: cannot be joined: {error.strerror}", file=sys.stderr, flush=True)


def serve(worker: ModuleType, channel: LineChannel[Start]) -> None:
    """Fork a process of the host for each message.

    Args:
        worker: the module of the workers.
        channel: to the fork server; it ends this process when it ends.
    """
    while True:
        try:
            start = channel.receive()
        except Closed:
            return
        os.sched_setaffinity(0, cores_of(start))  # of the process that is forked, before it has run anywhere
        process = fork_orphan()
        if process:
            channel.send(Started(process))
            continue
        channel.close()
        if not isinstance(start, StartMember):
            let_go()
        if isinstance(start, StartFiller):
            fill(start.core)
        if isinstance(start, StartSpinner):
            spin(start.core, start.burst_ms, start.rest_ms)
        become(start)
        worker.main(start.control, start.rank)
        return


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


def let_go() -> None:
    """Let go of the fork server's input and output: who holds them hides the server's end from the supervisor."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nothing, standard)
    os.close(nothing)


def become(member: StartMember) -> None:
    """Make this process a worker on its host: log, variables, network namespace, cores, slice, memory limit.

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
    if member.namespace:
        namespace = os.open(member.namespace, os.O_RDONLY)
        set_network_namespace(namespace)
        os.close(namespace)
    os.sched_setaffinity(0, member.cores)
    if member.short_slice:
        shorten_slice()
    resource.setrlimit(resource.RLIMIT_DATA, (member.memory_bytes, member.memory_bytes))


if __name__ == "__main__":
    main(sys.argv[1])
