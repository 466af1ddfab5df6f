"""The first process of an emulation's sandbox: it makes the hosts and the links, checks them, and runs the command.

python -m ddlbench.emulate.supervisor JOB.json ANSWER.json
"""

import os
import signal
import sys
from collections import Counter
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from time import monotonic

from ddlbench.emulate.commands import Commands
from ddlbench.emulate.emulation import OF_SIGNALS, TOLERANCES, Emulated, Emulation, Task
from ddlbench.emulate.names import name_hosts
from ddlbench.emulate.output import tell
from ddlbench.emulate.rendezvous import serving
from ddlbench.errors import DdlbenchError
from ddlbench.launch.fork_starter import ForkServer
from ddlbench.network.limits import Capacity, check_link
from ddlbench.network.link import Link
from ddlbench.network.sites import Sites
from ddlbench.network.star import Star
from ddlbench.network.traffic import BRIEF, FULL, Effort
from ddlbench.network.verify import OutOfTolerance, verify
from ddlbench.network.verify_sites import verify_sites
from ddlbench.sandbox.job import do
from ddlbench.shares.bursts import burst_percent, warning
from ddlbench.shares.core_division import Division
from ddlbench.shares.fillers import Fillers
from ddlbench.telemetry.other_load import LoadWatch

_FORK_SERVER = [sys.executable, "-m", "ddlbench.workers.common.fork_server", "ddlbench.emulate.member"]
_START_S = 30.0
_PATIENCE_S = 120.0  # with others that take the cores while the links are measured


class Interrupted(DdlbenchError):
    """A signal came while no command ran that could have got it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"{signal.Signals(number).name} came before the command was started")
        self.number = number
        self.exit_code = OF_SIGNALS + number


def run(task: Task) -> Emulated:
    """Emulate.

    Args:
        task: the hosts, their links and the command.

    Returns:
        What came of it.

    Raises:
        DdlbenchError: the links cannot be made, are not what was asked for before the command starts, or a process
            could not be started.
        Interrupted: a signal came before the command was started.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to us too; it comes by `task.signals`
    emulation, wires = task.emulation, task.emulation.wires
    folder = Path(task.signals).parent
    with ExitStack() as stack:
        signals = os.open(task.signals, os.O_RDONLY | os.O_NONBLOCK)
        stack.callback(os.close, signals)
        division = Division(stack.enter_context(ExitStack()), contained=bool(emulation.image))
        starter = stack.enter_context(ForkServer(_FORK_SERVER, os.environ, log=folder / "fork_server.log"))
        star = stack.enter_context(
            Star(
                [host.address for host in emulation.hosts],
                congestion_control="cubic",
                dilation=emulation.dilation,
                sites=len(wires.names) if isinstance(wires, Sites) else 1,
            )
        )
        shape(star, emulation)
        before = measured(star, emulation, FULL, signals)
        name_hosts(emulation.hosts, folder)
        stack.enter_context(serving(emulation.hosts[0].address, star.namespaces[0]))
        # Docker keeps the shares of its containers itself.
        filled = [] if emulation.image else emulation.hosts
        deadline = monotonic() + _START_S
        dividing = division.starter(starter, filled, deadline)
        fillers = stack.enter_context(Fillers(dividing, filled, deadline))
        bursts = burst_percent(dividing, filled, fillers, deadline)
        if said := warning(filled, bursts, TOLERANCES.share_percent):
            tell(said)
        check_for(signals)
        commands = stack.enter_context(closing(Commands(emulation, star.namespaces, signals)))
        with fillers.running():
            ends = commands.run(dividing)
        star.backend.check()
        after, drifted, ended_by = None, None, commands.signal
        if ended_by is None:
            try:
                after = measured(star, emulation, BRIEF, signals)
            except OutOfTolerance as error:
                drifted = str(error)
            except Interrupted as error:
                ended_by = error.number
        between = division.between if filled else None
        return Emulated(ends, ended_by, star.backend.name, before, after, drifted, between, bursts)


def check_for(signals: int) -> None:
    """Check that no signal has come.

    Args:
        signals: the file descriptor from which they come, as of `Commands`.

    Raises:
        Interrupted: one has.
    """
    with suppress(BlockingIOError):
        if numbers := os.read(signals, 64):
            raise Interrupted(numbers[0])


def shape(star: Star, emulation: Emulation) -> None:
    """Give the hosts their links, if this machine can make them.

    Args:
        star: the hosts, whose links are open.
        emulation: what was asked for.

    Raises:
        LinkRefused: a link cannot be made here.
    """
    capacity = Capacity(star)
    for link, senders in Counter(star.links(emulation.wires)).items():
        check_link(capacity, link, hosts=senders, senders=senders)
    star.shape(emulation.wires)


def measured(star: Star, emulation: Emulation, effort: Effort, signals: int) -> dict[str, object]:
    """Measure the links, again and again where they are wrong while others take the cores.

    Args:
        star: the hosts; nothing runs on them.
        emulation: what was asked for.
        effort: how long to measure.
        signals: as of `check_for`.

    Returns:
        What they were measured to be, as of `verify` or `verify_sites`.

    Raises:
        OutOfTolerance: that is not what was asked for.
        Interrupted: a signal came.
    """
    deadline = monotonic() + _PATIENCE_S
    while True:
        check_for(signals)
        watch = LoadWatch()
        try:
            return _measured_once(star, emulation.wires, effort)
        except OutOfTolerance as error:
            load = watch.since_start()
            is_disturbed = load is not None and load.exceeds(TOLERANCES.others_percent)
            if not is_disturbed or monotonic() > deadline:
                raise
            tell(f"{error}\n  {load}: the links are measured again.")


def _measured_once(star: Star, wires: Link | Sites, effort: Effort) -> dict[str, object]:
    if isinstance(wires, Sites):
        return dict(verify_sites(star, wires, TOLERANCES, effort))
    return dict(verify(star, wires, TOLERANCES, effort).as_dict())


if __name__ == "__main__":
    sys.exit(do(Task, run))
