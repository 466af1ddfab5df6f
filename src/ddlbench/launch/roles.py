"""Who is in a worker group: the workers, one a host, and what a parameter server needs besides.

A framework's parameter servers come with the processes that it runs them with: TensorFlow's asynchronous ones with a
coordinator, MXNet's with a scheduler. They share the servers' host, which is the last one; where a study has no host
more than workers, that is the last worker's host.
"""

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
HOLDING = ("server", "ps")  # the roles of those that hold the parameters
FIRST_PORT = 29500
_PORTS = range(20000, 32768)
_PORTS_OF_A_JOB = 64


@dataclass(frozen=True)
class Member:
    """A process of the group: what it is, which one of its kind, and the number of its host, all from 0."""

    role: str
    index: int
    host: int


def members(framework: str, strategy: str, workers: int, hosts: int) -> tuple[Member, ...]:
    """The processes of a group in the order of their ranks, workers first."""
    serving = BESIDES.get(worker_of(framework, strategy), ())
    return (
        *(Member(WORKER, rank, rank) for rank in range(workers)),
        *(Member(role, 0, hosts - 1) for role in serving),
    )


def port_ranges(job: str) -> Iterator[range]:
    """The ports of a SLURM job's processes, and those that they have where somebody else listens at one of these.

    Jobs that share a node begin with others. All lie below the ports that Linux gives to outgoing connections.
    """
    count = len(_PORTS) // _PORTS_OF_A_JOB
    for number in range(count):
        first = _PORTS.start + (int(job) + number) % count * _PORTS_OF_A_JOB
        yield range(first, first + _PORTS_OF_A_JOB)


def cluster(
    group: Sequence[Member], addresses: Sequence[str], ports: Sequence[int] = ()
) -> dict[str, list[str]]:
    """The addresses of a group's processes, each with a port of its own.

    Args:
        group: the members, by rank.
        addresses: of the hosts.
        ports: the first port of each host; empty: FIRST_PORT.

    Returns:
        {role: `address:port` of each of its processes}.
    """
    found: dict[str, list[str]] = {}
    for rank, member in enumerate(group):
        first = ports[member.host] if ports else FIRST_PORT
        found.setdefault(member.role, []).append(f"{addresses[member.host]}:{first + rank}")
    return found


def worker_of(framework: str, strategy: str) -> str:
    """What trains: a name of `workers.modules`. A framework may have one that is for a strategy alone."""
    if not strategy.startswith("parameter_server"):
        return framework
    own = f"{framework}_{strategy}"
    return own if own in BESIDES else f"{framework}_parameter_server"
