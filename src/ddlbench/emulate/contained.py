"""The command in a container of Docker's on each host, which joins the host's network and the sandbox's processes.

A host's share of its cores is Docker's to keep (a quota in periods of 10 ms, or of longer ones for less than a tenth of
a core), as the fillers of a host are in another control group than its container, and would take their turns beside it.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import ceil

from ddlbench.containers.docker import LABEL, NETWORK, OCI_RUNTIME, PROCESSES
from ddlbench.containers.engines import describe
from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import Host

_PERIOD_US = 10_000
_LEAST_QUOTA_US = 1000  # that Docker takes
_MODE = "emulate"


class NoContainers(DdlbenchError):
    """The command cannot run in containers here."""

    exit_code = 125  # as of our other failures, which are not the command's


@dataclass(frozen=True)
class Image:
    """What the containers are made from.

    Attributes:
        name: as the user gave it.
        image_id: in the engine.
        address: of the engine.
        folder: that the command starts in; it is mounted to be read and written.
    """

    name: str
    image_id: str
    address: str
    folder: str


def container_argv(
    image: Image,
    command: Sequence[str],
    variables: Mapping[str, str],
    hosts: Sequence[Host],
    rank: int,
    *,
    outer_process: int,
    outer_user: tuple[int, int],
    namespace: int,
) -> list[str]:
    """Write the command line of a host's container.

    Args:
        image: what it is made from.
        command: the argv inside.
        variables: environment variables inside.
        hosts: all of them, whose names it knows.
        rank: the number of its host, from 0.
        outer_process: the id of the sandbox's first process, as the daemon sees it.
        outer_user: for whom it works: the ids of user and group.
        namespace: the host's network namespace, a descriptor of that process.

    Returns:
        The words to execute, `docker` first.
    """
    here, supervisor = hosts[rank], f"/proc/{outer_process}"
    inside = {
        **variables,
        "HOME": "/tmp",  # in the container, which has one of its own  # nosec B108
        NETWORK: f"{supervisor}/fd/{namespace}",
        PROCESSES: f"{supervisor}/ns/pid",
    }
    cores = here.core_share * len(here.cores)
    period_us = max(_PERIOD_US, ceil(_LEAST_QUOTA_US / cores))
    limited = ("--cpu-period", str(period_us), "--cpu-quota", str(round(period_us * cores)))
    return [
        *("docker", "run", "--rm", "--pull", "never", "--label", f"{LABEL}={_MODE}"),
        *("--runtime", OCI_RUNTIME, "--network", "host", "--security-opt", "no-new-privileges"),
        *("--user", "{}:{}".format(*outer_user), "--shm-size", str(here.memory_bytes)),
        *("--cpuset-cpus", ",".join(map(str, here.cores)), *(limited if here.core_share < 1 else ())),
        *(word for host in hosts for word in ("--add-host", f"{host.name}:{host.address}")),
        *("--volume", f"{image.folder}:{image.folder}", "--workdir", image.folder),
        *(word for name, value in sorted(inside.items()) for word in ("--env", f"{name}={value}")),
        image.image_id,
        *command,
    ]


def image_of(name: str) -> Image:
    """Find an image in Docker's engine.

    Args:
        name: or id.

    Returns:
        The image, for commands in the working directory.

    Raises:
        NoContainers: no engine answers, it cannot join emulated hosts, or it has no such image.
    """
    from ddlbench.containers import engine  # importing Docker's package takes a third of a second

    try:
        described = describe("docker")
        if described["name"] != "docker":
            raise NoContainers(
                "`--runtime docker` needs Docker's own engine, and the one that answers is Podman"
            )
        with closing(engine.connect(described["address"])) as client:
            found = engine.image_id(client, name)
    except (DdlbenchError, *engine.FAILURES) as error:
        raise NoContainers(str(error)) from error
    if found is None:
        raise NoContainers(f"Docker has no image {name!r}; get it by  docker pull {name}")
    return Image(name, found, described["address"], os.getcwd())
