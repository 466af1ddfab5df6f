"""Choose how members start on this machine: by a fork server in a virtual environment, or by one in each container."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddlbench.environments.materials import BARE
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.launch.bare import workers_argv
from ddlbench.launch.container_starter import Contained, Containers
from ddlbench.launch.fork_starter import ForkServer
from ddlbench.network.hosts import Host


@dataclass(frozen=True)
class HostsHere:
    """Hosts on this machine, and the network namespace of each, by descriptor (None: ours)."""

    hosts: Sequence[Host]
    namespaces: Sequence[int | None]


def starter_here(
    environment: RuntimeEnvironment,
    worker: str,
    variables: Mapping[str, str],
    here: HostsHere,
    contained: Contained,
    *,
    log: Path,
) -> ForkServer | Containers:
    """Make a starter for members on hosts of this machine; its faults are reported when the first member is started.

    Args:
        environment: what the members run in; its runtime decides how they are started.
        worker: a name of `workers.modules.MODULES`.
        variables: environment variables of all members.
        here: the hosts.
        contained: what containers need besides.
        log: the file for a fork server's standard error.

    Returns:
        A fork server or containers, which have begun to import the framework.
    """
    command = workers_argv(environment.python, worker)
    if environment.runtime == BARE:
        return ForkServer(command, variables, log=log)
    return Containers(environment, command, variables, here.hosts, here.namespaces, contained)
