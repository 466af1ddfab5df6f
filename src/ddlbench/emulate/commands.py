"""The command on every host, from its start until nothing of it is left."""

import os
import selectors
import signal
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

import psutil

from ddlbench.emulate.contained import container_argv
from ddlbench.emulate.emulation import Emulation, HostEnd
from ddlbench.emulate.host_processes import HostProcesses, cpu_s, name_of
from ddlbench.emulate.member import Command
from ddlbench.emulate.output import Budget, ReaderGone, Stream, say
from ddlbench.emulate.series import Sampled, Series, passed
from ddlbench.emulate.variables import host_variables
from ddlbench.launch.fork_starter import namespace_path
from ddlbench.launch.starter import Starter
from ddlbench.network.hosts import Host
from ddlbench.protocol.codec import written
from ddlbench.protocol.fork_messages import StartMember
from ddlbench.sandbox.sandbox import outer_process, outer_user
from ddlbench.system.processes import describe_exit
from ddlbench.telemetry.counters import Counted, Counters, parse
from ddlbench.telemetry.load import Load

_START_S, _POLL_S = 30.0, 0.05
_UNLIMITED = -1  # RLIM_INFINITY
TERM_S = 5.0  # that a command has to end after a signal, before it is killed


@dataclass
class Running:
    """The command on one host."""

    host: Host
    processes: HostProcesses
    counters: Counters
    before: Counted
    budget: Budget
    streams: tuple[Stream, Stream]
    has_cpu_time: bool  # else the command is not the one that computes, but the client of an engine
    pid: int = 0
    began_s: float = 0.0
    ended_s: float = 0.0
    status: int | None = None
    cpu_s: float = 0.0
    was_ended: bool = False
    left: list[str] = field(default_factory=list)

    def end(self) -> HostEnd:
        """Sum up what happened on the host."""
        sent, received, again = passed(self.before, parse(self.counters.read()))
        return HostEnd(
            name=self.host.name,
            status=self.status or 0,
            was_ended=self.was_ended,
            wall_s=self.ended_s - self.began_s,
            cpu_s=self.cpu_s if self.has_cpu_time else None,
            sent_bytes=sent,
            received_bytes=received,
            retransmits=again,
            output_bytes=self.budget.seen_bytes,
            left=self.left,
        )


class Commands:
    """The command on all hosts.

    Args:
        emulation: the hosts and the command.
        namespaces: of the hosts, by descriptor.
        signals: a file descriptor from which bytes come, each the number of a signal for the commands.

    Attributes:
        signal: the first signal that came; None: none came.
    """

    def __init__(self, emulation: Emulation, namespaces: Sequence[int], signals: int) -> None:
        self._emulation = emulation
        self._namespaces = namespaces
        self._signals = signals
        self._selector = selectors.DefaultSelector()
        self._selector.register(signals, selectors.EVENT_READ)
        self._kill_at_s: float | None = None  # when whoever still runs is killed
        self._stop_at_s: float | None = None  # when the other hosts are ended, after one has failed
        # what we have started, and wait for by its id
        self._ours = {each.pid for each in psutil.Process().children()}
        self.signal: int | None = None
        width = max(len(host.name) for host in emulation.hosts)
        self._all = [
            self._running(host, namespace, width)
            for host, namespace in zip(emulation.hosts, namespaces, strict=True)
        ]

    def _running(self, host: Host, namespace: int, width: int) -> Running:
        budget = Budget(host.name, self._emulation.shown_bytes)
        streams = (
            Stream(budget, width, sys.stdout.fileno()),
            Stream(budget, width, sys.stderr.fileno()),
        )
        for stream in streams:
            self._selector.register(stream, selectors.EVENT_READ, stream)
        counters = Counters(namespace)  # the link check has sent much already
        return Running(
            host,
            HostProcesses(namespace),
            counters,
            parse(counters.read()),
            budget,
            streams,
            not self._emulation.image,
        )

    def run(self, starter: Starter) -> list[HostEnd]:
        """Start the command on every host, and wait until all have ended.

        Args:
            starter: forks the processes.

        Returns:
            How it ended on each host. Nothing of it runs any more.

        Raises:
            DdlbenchError: a process could not be started.
        """
        try:
            for rank in range(len(self._all)):
                self._start(starter, rank)
            with closing(self._series()) if self._emulation.series else nullcontext() as series:
                while self._alive():
                    self._wait()
                    if series:
                        series.sample()
            return self._ends()
        finally:
            self._sweep()

    def _series(self) -> Series:
        hosts = [
            Sampled(
                each.host.name, each.counters, each.before, Load([each.pid]) if each.has_cpu_time else None
            )
            for each in self._all
        ]
        return Series(Path(self._emulation.series), hosts, self._emulation.dilation)

    def _start(self, starter: Starter, rank: int) -> None:
        running, emulation = self._all[rank], self._emulation
        out, err = running.streams
        inherited = {} if emulation.image else os.environ
        variables = host_variables(emulation.hosts, rank, emulation.dilation, inherited=inherited)
        argv = emulation.command
        if emulation.image:
            argv = container_argv(
                emulation.image,
                emulation.command,
                variables,
                emulation.hosts,
                rank,
                outer_process=outer_process(),
                outer_user=outer_user(),
                namespace=self._namespaces[rank],
            )
            variables["DOCKER_HOST"] = emulation.image.address
        command = Command(argv, err.path, emulation.unset)
        start = StartMember(
            rank=rank,
            control=written(command),
            host=running.host.name,
            namespace=namespace_path(self._namespaces[rank]),
            cores=running.host.cores,
            memory_bytes=_UNLIMITED,
            short_slice=True,
            variables=variables,
            log=out.path,
        )
        running.began_s = monotonic()
        running.pid = starter.start(start, running.began_s + _START_S).pid
        self._ours.add(running.pid)

    def _alive(self) -> list[Running]:
        return [each for each in self._all if each.status is None]

    def _wait(self) -> None:
        """Forward what was printed, and see who has ended, and whom to end."""
        for key, _ in self._selector.select(_POLL_S):
            if key.fileobj == self._signals:
                self._handle_signals(os.read(self._signals, 64))
            else:
                self._forward(key.data)
        self._reap()
        now_s = monotonic()
        if self._kill_at_s is not None and now_s > self._kill_at_s:
            self._kill()
        elif self._stop_at_s is not None and now_s > self._stop_at_s:
            self._stop(signal.SIGTERM, "the other hosts")

    def _forward(self, stream: Stream) -> None:
        try:
            stream.forward()
        except ReaderGone:
            self._selector.unregister(stream)
            if self.signal is None:
                self.signal = signal.SIGPIPE
                self._stop(signal.SIGTERM, "nobody reads the output any more: all hosts")

    def _handle_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if self.signal is None:
                self.signal = number
                self._stop(number, "all hosts")
            else:
                self._kill_at_s = 0.0

    def _stop(self, number: int, whom: str) -> None:
        self._stop_at_s = None
        for each in self._alive():
            each.was_ended = True
            each.processes.signal(number)
        if self._kill_at_s is None:
            self._kill_at_s = monotonic() + TERM_S
            say(f"{whom} get {signal.Signals(number).name}, and SIGKILL in {TERM_S:g} s")

    def _kill(self) -> None:
        for each in self._alive():
            if self._kill_at_s:
                say(f"{each.host.name} has not ended in {TERM_S:g} s: killed")
            each.processes.signal(signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
        self._kill_at_s = 0.0

    def _reap(self) -> None:
        """See which commands have ended, and reap the orphans of their daemons."""
        self._reap_orphans()
        for each in self._alive():
            ended, status, usage = os.wait4(each.pid, os.WNOHANG)
            if not ended:
                continue
            each.status, each.ended_s = os.waitstatus_to_exitcode(status), monotonic()
            each.cpu_s = usage.ru_utime + usage.ru_stime
            if each.status == 0 or each.was_ended:
                continue
            others = self._alive()
            say(f"{each.host.name} ended with {describe_exit(each.status)}")
            if others and self._stop_at_s is None and self._kill_at_s is None:
                names = ", ".join(other.host.name for other in others)
                say(f"{names}: {self._emulation.grace_s:g} s to end too")
                self._stop_at_s = monotonic() + self._emulation.grace_s

    def _reap_orphans(self) -> None:
        """Wait for processes of the commands whose parents have ended: the first process of a sandbox inherits them."""
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in self._ours:
                return
            os.waitpid(ended.si_pid, 0)

    def _ends(self) -> list[HostEnd]:
        """Kill what the commands left behind, print what is in the pipes, and sum up."""
        for each in self._all:
            processes = each.processes.find()
            each.left = [name for process in processes if (name := name_of(process))]
            each.cpu_s += sum(map(cpu_s, processes))
            if each.left:
                say(f"{each.host.name} left processes behind, which are killed: {_counted(each.left)}")
        self._sweep()
        with suppress(ReaderGone):
            for each in self._all:
                for stream in each.streams:
                    stream.drain()
        return [each.end() for each in self._all]

    def _sweep(self) -> None:
        """Kill all processes of all hosts until there are none."""
        while sum(len(each.processes.signal(signal.SIGKILL)) for each in self._all):
            sleep(_POLL_S / 10)

    def close(self) -> None:
        """Close the pipes and the counters."""
        self._selector.close()
        for each in self._all:
            each.counters.close()
            for stream in each.streams:
                stream.close()


def _counted(names: Sequence[str]) -> str:
    return ", ".join(
        f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)
    )
