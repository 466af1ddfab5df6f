"""Which share of this machine each emulated host gets, and the time dilation that follows from it."""

from dataclasses import dataclass
from math import ceil

from ddlbench.errors import ConfigError
from ddlbench.protocol.messages import GpuShare

GIB = 2**30
NETWORK = "10.66.0.0/16"  # of all emulated hosts
# Left to the operating system and to our own processes when hosts share the machine's memory.
MEMORY_SHARE = 0.9


@dataclass(frozen=True)
class Host:
    """One emulated host: its name and address, the cores its processes are pinned to, its threads and memory.

    core_share: how much of these cores' time is its own; the rest is not lent to it while its neighbours wait.
    """

    name: str
    address: str
    cores: tuple[int, ...]
    threads: int
    memory_bytes: int
    core_share: float = 1.0


@dataclass(frozen=True)
class Placement:
    """All hosts of a run; times measured on them are divided by `dilation`.

    `memory_reduced` tells that this machine has too little memory to give each host what the study gave it.
    `gpus` are those of the first hosts, one of each worker, where the run computes on this machine's GPUs.
    """

    hosts: tuple[Host, ...]
    dilation: float
    memory_reduced: bool
    gpus: tuple[GpuShare, ...] = ()


def place(
    count: int,
    *,
    vcpus: int,
    memory_gb: float,
    host_count: int,
    cores: list[int],
    available_memory_bytes: int,
    dilation: float | str = "auto",
) -> Placement:
    """Place `count` hosts of `vcpus` and `memory_gb` (GiB) on `cores`.

    Where all `host_count` hosts of the study fit, a host has its own cores and nothing is dilated. Otherwise every host
    of the study, in small groups too, so that they compare, has at most one core, and time is dilated by
    k = vcpus x (hosts on a core): a host then computes as fast as `vcpus` such cores that share the work perfectly. A
    host that happens to be alone on its core, or whose neighbours wait, has its share of it and no more.
    Raises ConfigError for a dilation that cannot be had on this machine, saying which can.
    """
    hosts_per_core = ceil(count / len(cores))
    if dilation == "auto" and host_count * vcpus <= len(cores):
        shares = [tuple(cores[i * vcpus : (i + 1) * vcpus]) for i in range(count)]
        factor = core_share = 1.0
    else:
        if dilation != "auto":
            hosts_per_core = _hosts_per_core(float(dilation), count, vcpus, len(cores))
        shares = [(cores[i // hosts_per_core],) for i in range(count)]
        factor, core_share = float(vcpus * hosts_per_core), 1 / hosts_per_core
    wanted = int(memory_gb * GIB)
    affordable = int(available_memory_bytes * MEMORY_SHARE / count)
    hosts = tuple(
        Host(f"h{i}", f"10.66.0.{i}", share, len(share), min(wanted, affordable), core_share)
        for i, share in enumerate(shares, start=1)
    )
    return Placement(hosts, factor, affordable < wanted)


def on_nodes(count: int, *, vcpus: int, memory_gb: float) -> Placement:
    """`count` hosts that are machines of their own, in real time; which ones, with which cores, is not known yet."""
    hosts = tuple(Host(f"h{i}", "", (), vcpus, int(memory_gb * GIB)) for i in range(1, count + 1))
    return Placement(hosts, 1.0, memory_reduced=False)


def _hosts_per_core(dilation: float, count: int, vcpus: int, cores: int) -> int:
    """How many hosts share a core under the dilation that was asked for."""
    possible = [vcpus * n for n in range(ceil(count / cores), count + 1)]
    if dilation not in possible:
        raise ConfigError(
            f"dilation: {dilation:g} cannot be had with {count} hosts of {vcpus} vCPU on {cores} cores "
            f"(possible are auto, {', '.join(map(str, possible))})"
        )
    return int(dilation) // vcpus
