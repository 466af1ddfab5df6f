"""What starts members on this machine: a fork server in a virtual environment, or containers with one in each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ddlbench.environments.materials import BARE
from ddlbench.launch.bare import workers_argv
from ddlbench.launch.container_starter import Containers
from ddlbench.launch.fork_starter import ForkServer
from ddlbench.network.hosts import Host


def starter_here(
    job: Mapping[str, Any],
    runtime: str,
    worker: str,
    variables: Mapping[str, str],
    hosts: Sequence[Host],
    namespaces: Sequence[int | None],
    *,
    log: Path,
) -> ForkServer | Containers:
    """A starter for members on these hosts of this machine, and in these namespaces (None: ours).

    job: environments (a description each runtime; without them `python` is a bare one's), and what `Containers` needs.
    worker: a name of `workers.modules`. Raises DdlbenchError where the runtime's program is missing.
    """
    described = job.get("environments", {}).get(runtime, job)
    command = workers_argv(str(described["python"]), worker)
    if runtime == BARE:
        return ForkServer(command, variables, log=log)
    return Containers(job, runtime, command, variables, hosts, namespaces)
