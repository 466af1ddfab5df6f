"""The environment variables by which a script finds its rank and its peers: torchrun's, Horovod's, TensorFlow's."""

import json
from collections.abc import Mapping, Sequence

from ddlbench.launch.gpu_variables import nccl_on_links
from ddlbench.launch.network_variables import network_variables
from ddlbench.network.hosts import Host

MASTER_PORT, RENDEZVOUS_PORT, TENSORFLOW_PORT = 29500, 29501, 29502
INTERFACE = "eth0"
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")  # none can be reached from an emulated host
_DEFAULTS = {"PYTHONUNBUFFERED": "1"}  # so that lines come when they are printed


def host_variables(
    hosts: Sequence[Host], rank: int, dilation: float, *, inherited: Mapping[str, str]
) -> dict[str, str]:
    """List the variables of the process on one host. There is one process on each.

    Args:
        hosts: all of them, in order.
        rank: the number of the host, from 0.
        dilation: how much slower the hosts' time runs.
        inherited: what the process has of the user's; a container has nothing of it.

    Returns:
        Values by name.
    """
    here, first, size = hosts[rank], hosts[0], len(hosts)
    workers = [f"{host.address}:{TENSORFLOW_PORT}" for host in hosts]
    tensorflow = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    return {
        **{name: value for name, value in _defaults(here).items() if name not in inherited},
        **network_variables(INTERFACE),
        **nccl_on_links(here.name),
        **_of_ranks(rank, size),
        "MASTER_ADDR": first.address,
        "MASTER_PORT": str(MASTER_PORT),
        # torchrun's own options: `torchrun train.py` needs no other.
        "PET_NNODES": str(size),
        "PET_NODE_RANK": str(rank),
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": first.address,
        "PET_MASTER_PORT": str(MASTER_PORT),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": first.address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(RENDEZVOUS_PORT),
        "HOROVOD_HOSTNAME": here.name,
        "TF_CONFIG": json.dumps(tensorflow),
        "DDLBENCH_HOST": here.name,
        "DDLBENCH_HOSTS": ",".join(host.address for host in hosts),
        "DDLBENCH_DILATION": f"{dilation:g}",
    }


def unwanted(environment: Mapping[str, str]) -> list[str]:
    """List the variables of a user that have no meaning on an emulated host.

    Args:
        environment: the user's.

    Returns:
        The names of those that it has.
    """
    return [name for name in environment if name.lower() in PROXIES]


def _defaults(host: Host) -> dict[str, str]:
    return {**_DEFAULTS, "OMP_NUM_THREADS": str(host.threads)}


def _of_ranks(rank: int, size: int) -> dict[str, str]:
    place, alone = str(rank), {"RANK": "0", "SIZE": "1"}
    return {
        "RANK": place,
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": place,
        "GROUP_RANK": place,
        "GROUP_WORLD_SIZE": str(size),
        "HOROVOD_RANK": place,
        "HOROVOD_SIZE": str(size),
        "HOROVOD_CROSS_RANK": place,
        "HOROVOD_CROSS_SIZE": str(size),
        **{f"HOROVOD_LOCAL_{name}": value for name, value in alone.items()},
    }
