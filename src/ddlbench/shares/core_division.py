"""What divides a core that hosts share: the kernel, by their sessions or their control groups; tried on this machine.

Sessions are enough for processes of the root CPU control group (`autogroup`, sched(7)). In any other one, as on a
desktop of systemd, each thread counts, and a host with more of them takes more; there each host needs a control group.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import fsum
from time import monotonic, sleep
from types import TracebackType
from typing import Literal, Self

from ddlbench.launch.starter import Process, Starter
from ddlbench.network.hosts import Host
from ddlbench.protocol.fork_messages import Start, StartSpinner
from ddlbench.sandbox.sandbox import outer_process, outer_processes
from ddlbench.shares.control_groups import ControlGroups, own_group_here, remove_abandoned
from ddlbench.telemetry.waiting import Waiting

Between = Literal["sessions", "control groups", "containers", "nothing"]

_LOOK_S = 0.1
# Slices are some ms long: of much less time than this, a slice more or less would decide. Others may use the core too.
_RACE_MS, _LONGEST_RACE_S = 80.0, 2.0
_BUSIER = 3  # processes of the busier one of two hosts
# Halfway between a half, which it gets of a divided core, and what one of all processes gets.
_LEAST_SHARE = (1 / 2 + 1 / (1 + _BUSIER)) / 2


class Division:
    """What divides the cores that hosts share.

    Args:
        stack: removes the control groups in the end.
        contained: each host is a container with a control group of its own.

    Attributes:
        between: what was found; None: nothing was tried yet, or no host shares its core.
    """

    def __init__(self, stack: ExitStack, *, contained: bool) -> None:
        self._stack = stack
        self.between: Between | None = "containers" if contained else None
        self._groups: ControlGroups | None = None
        self._tried_s = 0.0

    def tried_s(self) -> float:
        """Say for how long the last call of `starter` tried, in s."""
        return self._tried_s

    def starter(self, starter: Starter, hosts: Sequence[Host], deadline: float) -> Starter:
        """Choose, the first time, what divides the cores.

        Args:
            starter: of the hosts' members.
            hosts: all hosts of the group.
            deadline: when processes must have been started, by `time.monotonic` in seconds.

        Returns:
            A starter whose processes are in their host's part of the core.

        Raises:
            DdlbenchError: a process could not be started, or not in time.
        """
        shared = [host for host in hosts if host.core_share < 1]
        if not shared:
            return starter
        self._tried_s = 0.0
        if self.between is None:
            began = monotonic()
            self.between = self._tried(starter, shared[0].cores[0], deadline)
            self._tried_s = monotonic() - began
        return InControlGroups(starter, self._groups) if self._groups else starter

    def _tried(self, starter: Starter, core: int, deadline: float) -> Between:
        parent = own_group_here()
        if parent:
            remove_abandoned(parent, outer_processes())
            # Once more in the end: of owners that were killed, processes may still be ending now.
            self._stack.callback(remove_abandoned, parent, outer_processes())
        if divides(starter, core, "session", deadline):
            return "sessions"
        why = "this process is in none that it knows"
        if parent:
            groups = self._stack.enter_context(ControlGroups(parent, outer_process()))
            try:
                if divides(InControlGroups(starter, groups), core, "group", deadline):
                    self._groups = groups
                    return "control groups"
                why = f"{parent} does not divide it between its groups"
            except OSError as error:
                why = f"{error.filename}: {error.strerror}"
        print(
            "warning: hosts that share a core are not held to their shares of it. Sessions do not divide it here, as "
            f"this process is in a CPU control group; nor do control groups ({why}). What helps a user of systemd:\n"
            "  systemd-run --user --scope -p Delegate=yes -p CPUWeight=100 COMMAND",
            file=sys.stderr,
            flush=True,
        )
        return "nothing"


@dataclass(frozen=True)
class InControlGroups:
    """A starter that puts each process into the control group of its host.

    Attributes:
        starter: what starts the processes.
        groups: of the hosts.
    """

    starter: Starter
    groups: ControlGroups

    def start(self, start: Start, deadline: float) -> Process:
        """Start a process in its host's control group.

        Args:
            start: what to start.
            deadline: when it must have been started, by `time.monotonic` in seconds.

        Returns:
            Its process.

        Raises:
            OSError: the group cannot be made.
            DdlbenchError: the process could not be started, or not in time.
        """
        return self.starter.start(replace(start, control_group=str(self.groups.of(start.host))), deadline)

    def close(self) -> None:
        """Start no more processes; those that were started continue."""
        self.starter.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def divides(starter: Starter, core: int, name: str, deadline: float) -> bool:
    """Try whether two hosts get the same of a core, though one of them has more processes.

    Args:
        starter: starts the processes; each host is new to it.
        core: its number.
        name: in the names of the two hosts.
        deadline: when the processes must have been started, by `time.monotonic` in seconds.

    Returns:
        Whether they do. Others that use the core take from both alike.

    Raises:
        OSError: a control group cannot be made.
        DdlbenchError: a process could not be started, or not in time.
    """
    processes: list[Process] = []
    hosts = [f"{name}-1", *[f"{name}-{_BUSIER}"] * _BUSIER]
    try:
        processes.extend(starter.start(StartSpinner(host=host, core=core), deadline) for host in hosts)
        ran_ms = _raced_ms(processes)
    finally:
        for each in processes:
            each.kill()
        for each in processes:
            each.wait()
    return ran_ms[0] > _LEAST_SHARE * fsum(ran_ms)


def _raced_ms(processes: Sequence[Process]) -> list[float]:
    """How long each of them ran, until together they have run for long enough to compare them."""
    waiting, latest = Waiting(each.pid for each in processes), monotonic() + _LONGEST_RACE_S
    while True:
        sleep(_LOOK_S)
        ran_ms = [each["ran_ms"] for each in waiting.since_start()]
        if fsum(ran_ms) >= _RACE_MS or monotonic() > latest:
            return ran_ms
