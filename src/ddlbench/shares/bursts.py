"""Whether hosts get their shares of a core: bursts of CPU are timed on each, while its neighbours are idle."""

from collections.abc import Iterator, Sequence
from time import sleep

from ddlbench.launch.starter import Process, Starter
from ddlbench.network.hosts import Host
from ddlbench.protocol.fork_messages import StartSpinner
from ddlbench.shares.fillers import Fillers
from ddlbench.telemetry.waiting import Waiting

_LOOK_S = 0.2
_BURST_MS, _REST_MS = 1.0, 0.7


def burst_percent(
    starter: Starter, hosts: Sequence[Host], fillers: Fillers, deadline: float
) -> list[float | None]:
    """Time bursts of CPU on each host that shares its core: one host of each core after another.

    Args:
        starter: of the hosts' members, which have nothing to do.
        hosts: all hosts of the group.
        fillers: of the hosts.
        deadline: when processes must have been started, by `time.monotonic` in seconds.

    Returns:
        For each host the CPU that its bursts got while they wanted it, in percent of its share: 100 is right. None: it
        has its cores to itself, or this kernel does not count how long threads wait.

    Raises:
        DdlbenchError: a process could not be started, or not in time.
    """
    found: dict[str, float | None] = {}
    for group in _one_of_each_core(hosts):
        bursts: list[Process] = []
        try:
            with fillers.running():
                for host in group:
                    start = StartSpinner(
                        host=host.name, core=host.cores[0], burst_ms=_BURST_MS, rest_ms=_REST_MS
                    )
                    bursts.append(starter.start(start, deadline))
                waiting = Waiting(each.pid for each in bursts)
                sleep(_LOOK_S)
                times = waiting.since_start()
        finally:
            for each in bursts:
                each.kill()
            for each in bursts:
                each.wait()
        for host, time in zip(group, times, strict=True):
            wanted_ms = (time["ran_ms"] + time["waited_ms"]) * host.core_share
            found[host.name] = 100 * time["ran_ms"] / wanted_ms if wanted_ms else None
    return [found.get(host.name) for host in hosts]


def warning(hosts: Sequence[Host], percent: Sequence[float | None], most_percent: float) -> str | None:
    """Say which hosts do not get their shares.

    Args:
        hosts: all hosts of the group.
        percent: of each, as of `burst_percent`.
        most_percent: how far from 100 it may be.

    Returns:
        A line for a person; None if no host is farther off.
    """
    off = [
        f"{host.name} {each:.0f} %"
        for host, each in zip(hosts, percent, strict=True)
        if each is not None and abs(each - 100) > most_percent
    ]
    if not off:
        return None
    return (
        f"warning: bursts of CPU did not get their host's share of a core, but {', '.join(off)} of it: times on these "
        "hosts are not what dilation says. Records and captions say so (docs/networks.md, 'Shares of a core')."
    )


def _one_of_each_core(hosts: Sequence[Host]) -> Iterator[list[Host]]:
    """The hosts that share cores, in groups of which no two share one."""
    left = [host for host in hosts if host.core_share < 1]
    while left:
        group = {host.cores: host for host in reversed(left)}.values()
        yield list(group)
        left = [host for host in left if host not in group]
