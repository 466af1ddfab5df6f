"""What starts members on this machine: a fork server in a virtual environment, or containers with one in each."""

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
    """Hosts on this machine, and in which network namespace each is, by descriptor (None: ours)."""

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
    """A starter for members on hosts of this machine.

    Args:
        environment: what the members run in; its runtime decides how they are started.
        worker: a name of `workers.modules.MODULES`.
        variables: environment variables of all members.
        here: the hosts.
        contained: what containers need besides.
        log: takes what a fork server prints.

    Raises:
        DdlbenchError: the runtime's program is missing.
    """
    command = workers_argv(environment.python, worker)
    if environment.runtime == BARE:
        return ForkServer(command, variables, log=log)
    return Containers(environment, command, variables, here.hosts, here.namespaces, contained)
