"""The members of a worker group: the workers, one or more on each host, and the processes of a parameter server.

Frameworks run their parameter servers with more processes: TensorFlow's asynchronous ones with a coordinator, MXNet's
with a scheduler. These share the servers' host, which is the last one; if a study has as many hosts as workers, that is
the last worker's host.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

WORKER = "worker"
BESIDES: Mapping[
    str, tuple[str, ...]
] = {  # what trains, a name of `workers.modules` -> roles besides workers
    "torch_parameter_server": ("server",),
    "tensorflow_parameter_server": ("ps", "chief"),
    "tensorflow_parameter_server_sync": ("ps",),
    "mxnet_parameter_server": ("scheduler", "server"),
}
HOLDING = ("server", "ps")  # the roles of processes that hold the parameters
FIRST_PORT = 29500
_PORTS = range(20000, 32768)
_PORTS_OF_A_JOB = 64


@dataclass(frozen=True)
class Member:
    """A process of the group: its role, its number within the role, and the number of its host, both from 0."""

    role: str
    index: int
    host: int


def members(
    framework: str,
    strategy: str,
    workers: int,
    hosts: int,
    *,
    workers_per_host: int = 1,
) -> tuple[Member, ...]:
    """List the processes of a group in the order of their ranks, workers first.

    Args:
        framework: that trains.
        strategy: how gradients are added up.
        workers: how many there are; they fill one host after another.
        hosts: how many there are; the last one has the processes of a parameter server.
        workers_per_host: how many fill a host.

    Returns:
        The processes, by rank.
    """
    serving = BESIDES.get(worker_of(framework, strategy), ())
    return (
        *(Member(WORKER, rank, rank // workers_per_host) for rank in range(workers)),
        *(Member(role, 0, hosts - 1) for role in serving),
    )


def port_ranges(job: str) -> Iterator[range]:
    """List the ports that a SLURM job's processes may use: the first range is taken unless one of its ports is in use.

    Jobs that share a node begin with different ranges. All ports lie below those that Linux gives to outgoing
    connections.

    Args:
        job: its number.

    Yields:
        Ranges of 64 ports each, every range once.
    """
    count = len(_PORTS) // _PORTS_OF_A_JOB
    for number in range(count):
        first = _PORTS.start + (int(job) + number) % count * _PORTS_OF_A_JOB
        yield range(first, first + _PORTS_OF_A_JOB)


def cluster(
    group: Sequence[Member], addresses: Sequence[str], ports: Sequence[int] = ()
) -> dict[str, list[str]]:
    """Find the addresses of a group's processes, each with its own port there.

    Args:
        group: the members, by rank.
        addresses: of the hosts.
        ports: the first port of each host; empty: FIRST_PORT.

    Returns:
        By role, `address:port` of each process.
    """
    found: dict[str, list[str]] = {}
    before: Counter[str] = Counter()  # by address, which hosts on the loopback interface share
    for member in group:
        address, first = addresses[member.host], ports[member.host] if ports else FIRST_PORT
        found.setdefault(member.role, []).append(f"{address}:{first + before[address]}")
        before[address] += 1
    return found


def worker_of(framework: str, strategy: str, *, replayed: bool = False) -> str:
    """Find what trains with a strategy; a framework may have workers for one strategy alone.

    Args:
        framework: its name.
        strategy: how gradients are added up.
        replayed: compute is replayed, which takes other workers with the same processes beside them.

    Returns:
        A name of `workers.modules.MODULES`.
    """
    if replayed:
        return f"{worker_of(framework, strategy)}_replay"
    if not strategy.startswith("parameter_server"):
        return framework
    own = f"{framework}_{strategy}"
    return own if own in BESIDES else f"{framework}_parameter_server"
