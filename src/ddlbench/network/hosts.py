"""The share of this machine that each emulated host gets, and the time dilation that follows from it."""

from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from ddlbench.errors import ConfigError
from ddlbench.protocol.messages import GpuShare

GIB = 2**30
NETWORK = "10.66.0.0/16"  # of all emulated hosts
MOST_HOSTS = 254
# The hosts' share of the available memory; the operating system and the driver's processes need the rest.
MEMORY_SHARE = 0.9
MOST_HOSTS_ON_A_CORE = 64
_LIMIT_BY_USE = 3  # the kernel counts what a replayed worker has allocated, and most of that is never touched


@dataclass(frozen=True)
class Host:
    """One host of a run.

    Attributes:
        name: `h1`, `h2`, ...
        address: its IPv4 address.
        cores: the cores that its processes are pinned to.
        threads: how many threads a worker computes with.
        memory_bytes: how much memory a worker may use.
        core_share: how much of these cores' time it gets, 0 to 1; it never gets more, even if its neighbours are idle.
    """

    name: str
    address: str
    cores: tuple[int, ...]
    threads: int
    memory_bytes: int
    core_share: float = 1.0


@dataclass(frozen=True)
class Placement:
    """All hosts of a run.

    Attributes:
        hosts: in order.
        dilation: by which times that are measured on the hosts are divided.
        memory_reduced: this machine has too little memory to give each host what the study asks for.
        gpus: of the first hosts, one for each worker, if the run computes on this machine's GPUs.
        workers_per_host: on a host of a cluster, where they are no hosts of their own.
        waits: compute is replayed by waiting, and only communication uses the cores.
        cards: for each host the network card that it is behind, where workers of one host share it; each of them is a
            host of its own here. Empty: nobody shares a card.
        is_least: the dilation is the least; that of measurements is chosen once the group runs.
    """

    hosts: tuple[Host, ...]
    dilation: float
    memory_reduced: bool
    gpus: tuple[GpuShare, ...] = ()
    waits: bool = False
    is_least: bool = False
    cards: tuple[int, ...] = ()
    workers_per_host: int = 1

    @property
    def planned_dilation(self) -> float | None:
        """The time dilation that measurements will have; None if it is chosen once the group runs."""
        return None if self.is_least else self.dilation


def place(
    count: int,
    *,
    vcpus: int,
    memory_gb: float,
    host_count: int,
    cores: list[int],
    available_memory_bytes: int,
    dilation: float | str = "auto",
    largest: int = 0,
    last_is: int = 1,
) -> Placement:
    """Place the hosts of a group on the cores of this machine.

    If all hosts of the study fit, each host has cores of its own and time is not dilated. Otherwise each host has at
    most one core, in small groups too, so that groups of different sizes can be compared. Time is then dilated by
    k = vcpus x (hosts on a core): a host computes as fast as `vcpus` such cores that share the work perfectly, and by
    as much less as threads are slower than that, where it is known (`SessionJob.dilation_of`). A host
    that is alone on its core, or whose neighbours wait, gets its share of the core and no more. If a larger k is asked
    for, or needed by a larger group of the same figure, hosts that do nothing share the cores too.

    Args:
        count: how many hosts the group has.
        vcpus: of each host.
        memory_gb: of each host, in GiB.
        host_count: how many hosts the study has.
        cores: the cores of this machine that may be used.
        available_memory_bytes: of this machine.
        dilation: the time dilation that the configuration asks for; `auto`: the smallest one, as above.
        largest: how many hosts the largest group has that this one is compared with; `auto` dilates both alike.
        last_is: how many times as much memory, and as many cores of its own, the last host has; of shared cores it has
            no more than the others.

    Returns:
        The hosts with their addresses, cores and memory, and the time dilation.

    Raises:
        ConfigError: this dilation is not possible on this machine, with those that are; or there are more than
            MOST_HOSTS.
    """
    hosts_per_core = ceil(max(count, largest) / len(cores))
    sizes = [1] * (count - 1) + [last_is]
    if dilation == "auto" and host_count * vcpus <= len(cores):
        ends = accumulate(size * vcpus for size in sizes)
        shares = [tuple(cores[end - size * vcpus : end]) for size, end in zip(sizes, ends, strict=True)]
        factor = core_share = 1.0
    else:
        if dilation != "auto":
            hosts_per_core = _hosts_per_core(float(dilation), count, vcpus, len(cores))
        shares = [(cores[i % len(cores)],) for i in range(count)]
        factor, core_share = float(vcpus * hosts_per_core), 1 / hosts_per_core
    wanted = int(memory_gb * GIB)
    affordable = int(available_memory_bytes * MEMORY_SHARE / sum(sizes))
    hosts = tuple(
        Host(f"h{i}", _address(i), share, len(share), size * min(wanted, affordable), core_share)
        for i, (share, size) in enumerate(zip(shares, sizes, strict=True), start=1)
    )
    return Placement(hosts, factor, affordable < wanted)


def place_waiting(
    count: int,
    *,
    cores: list[int],
    available_memory_bytes: int,
    dilation: float,
    servers: int = 0,
    is_least: bool = False,
) -> Placement:
    """Place hosts whose compute is replayed by waiting: all share all cores, which only communication uses.

    Args:
        count: how many hosts the group has.
        cores: the cores of this machine that may be used.
        available_memory_bytes: of this machine.
        dilation: the time dilation.
        servers: how many of the hosts, the last ones, have a server and no worker: each holds what all workers send.
        is_least: it is the least, and will be chosen once the group runs.

    Returns:
        The hosts with their addresses, cores and memory, and the time dilation.

    Raises:
        ConfigError: there are more than MOST_HOSTS.
    """
    affordable = available_memory_bytes * MEMORY_SHARE
    limit = _LIMIT_BY_USE * affordable / count
    limits = [limit] * (count - servers) + [max(limit, affordable)] * servers
    hosts = tuple(
        Host(f"h{i}", _address(i), tuple(cores), 1, int(each)) for i, each in enumerate(limits, start=1)
    )
    return Placement(hosts, dilation, memory_reduced=True, waits=True, is_least=is_least)


def on_nodes(
    count: int, *, vcpus: int, memory_gb: float, workers_per_host: int = 1, last_is: int = 1
) -> Placement:
    """Place hosts that are machines of their own, without time dilation; their addresses and cores are not known yet.

    Args:
        count: how many.
        vcpus: of each host.
        memory_gb: of each host, in GiB.
        workers_per_host: how many workers share a host evenly.
        last_is: how many times the threads and memory of such a worker the last host has.

    Returns:
        The hosts, with the threads and memory of each worker, with empty addresses and no cores.
    """
    threads, memory_bytes = vcpus // workers_per_host, int(memory_gb * GIB / workers_per_host)
    sizes = [1] * (count - 1) + [last_is]
    hosts = tuple(
        Host(f"h{i}", "", (), size * threads, size * memory_bytes) for i, size in enumerate(sizes, start=1)
    )
    return Placement(hosts, 1.0, memory_reduced=False, workers_per_host=workers_per_host)


def _address(number: int) -> str:
    """The address of an emulated host, counted from 1."""
    if number > MOST_HOSTS:
        raise ConfigError(
            f"at most {MOST_HOSTS} hosts can be emulated (workers, and servers on hosts of their own)"
        )
    return f"10.66.0.{number}"


def _hosts_per_core(dilation: float, count: int, vcpus: int, cores: int) -> int:
    """Compute how many hosts share a core with the requested dilation."""
    fewest = ceil(count / cores)
    if dilation not in [vcpus * hosts for hosts in range(fewest, MOST_HOSTS_ON_A_CORE + 1)]:
        raise ConfigError(
            f"dilation: {dilation:g} cannot be had with {count} hosts of {vcpus} vCPU on {cores} cores (possible are "
            f"auto, and the multiples of {vcpus} from {vcpus * fewest} to {vcpus * MOST_HOSTS_ON_A_CORE})"
        )
    return int(dilation) // vcpus
