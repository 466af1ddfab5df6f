"""How workers agree on gradients, and how many hosts they take with their servers."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Strategy:
    """How workers agree on gradients.

    Attributes:
        short: its name in ids.
        is_synchronous: whether all workers take each step together.
        servers: how many processes besides the workers have the parameters.
    """

    short: str
    is_synchronous: bool = True
    servers: int = 0


STRATEGIES: Mapping[str, Strategy] = {
    "ring_allreduce": Strategy("ring"),
    "ring_allreduce_fp16": Strategy("ring-fp16"),  # gradients travel as 16-bit numbers
    # Among the workers of each host, and then among hosts.
    "hierarchical_allreduce": Strategy("hierarchical"),
    "ring_allreduce_powersgd": Strategy("ring-powersgd"),  # gradients travel as factors of rank 1
    "parameter_server_sync": Strategy("ps-sync", servers=1),
    # Gradients are added up on the devices, if there are any.
    "parameter_server_device_sync": Strategy("ps-device-sync", servers=1),
    "parameter_server_async": Strategy("ps-async", is_synchronous=False, servers=1),
}


def host_total(workers: int, strategy: str, host_count: int, workers_per_host: int = 1) -> int:
    """Count the hosts that workers and servers need. A server has its own host if the study has one for it.

    Args:
        workers: how many.
        strategy: a key of STRATEGIES, which gives the number of servers.
        host_count: how many hosts the study has.
        workers_per_host: how many share a host.

    Returns:
        The hosts of the workers, plus the number of servers if all fit into `host_count`.
    """
    servers = STRATEGIES[strategy].servers
    filled = -(-workers // workers_per_host)
    return filled + servers if filled + servers <= host_count else filled
