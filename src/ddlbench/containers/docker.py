"""The command of workers in a Docker container that joins an emulated host.

No capability is needed, and none is given. The OCI runtime `ddlbench` (containers/oci_runtime.py, which the daemon must
know) has the container join the host's network and the sandbox's process namespace: its processes die with the sandbox,
by `kill -9` of the driver too, and have the same ids there as the supervisor sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddlbench.containers.container import Needs

OCI_RUNTIME = "ddlbench"
LABEL = "ddlbench.run"
NETWORK, PROCESSES = "DDLBENCH_NETWORK_NAMESPACE", "DDLBENCH_PROCESS_NAMESPACE"
_OF_ITS_CLIENT = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_CONFIG")


@dataclass(frozen=True)
class Joined:
    """The namespaces that a container joins, as paths that the daemon finds, and the user that it works for."""

    network: str
    processes: str
    user: tuple[int, int]  # as the daemon numbers users and groups


def docker_argv(
    image: str, command: Sequence[str], needs: Needs, joined: Joined, *, run: str, shared_memory_bytes: int
) -> list[str]:
    """The argv of a container that runs `command` with our standard input and output, and is removed when it ends.

    image: its id, which is never pulled. run: the run's id, for the label. Files are written as the user's own.
    """
    joining = ("--runtime", OCI_RUNTIME, "--network", "host")
    return [
        "docker",
        *run_words(
            image,
            command,
            needs,
            joining=joining,
            gpus=("--gpus", "all"),
            variables={**needs.variables, NETWORK: joined.network, PROCESSES: joined.processes},
            user=joined.user,
            run=run,
            shared_memory_bytes=shared_memory_bytes,
        ),
    ]


def run_words(
    image: str,
    command: Sequence[str],
    needs: Needs,
    *,
    joining: Sequence[str],
    gpus: Sequence[str],
    variables: Mapping[str, str],
    user: tuple[int, int],
    run: str,
    shared_memory_bytes: int,
) -> list[str]:
    """What a client of Docker or of Podman is told, after its name: to run `command` with no more than it needs.

    joining, gpus: the engine's own options that join the host's namespaces, and that give the GPUs if they are needed.
    """
    inside = {**variables, "HOME": "/tmp"}
    return [
        *("run", "--interactive", "--rm", "--pull", "never"),
        *(*joining, "--label", f"{LABEL}={run}"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp"),
        *("--user", "{}:{}".format(*user), "--shm-size", str(shared_memory_bytes)),
        *(gpus if needs.gpus else ()),
        *(word for path, mode in needs.folders.items() for word in ("--volume", f"{path}:{path}:{mode}")),
        *(word for name, value in sorted(inside.items()) for word in ("--env", f"{name}={value}")),
        image,
        *command,
    ]


def published_argv(image: str, command: Sequence[str], needs: Needs, *, run: str, port: int) -> list[str]:
    """The argv of a container on Docker's own bridge, whose NAT publishes `port` as the same one of the loopback."""
    return [
        *("docker", "run", "--rm", "--pull", "never", "--label", f"{LABEL}={run}"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        *("--publish", f"127.0.0.1:{port}:{port}"),
        *(word for path, mode in needs.folders.items() for word in ("--volume", f"{path}:{path}:{mode}")),
        *(word for name, value in sorted(needs.variables.items()) for word in ("--env", f"{name}={value}")),
        image,
        *command,
    ]


def client_environment(inherited: Mapping[str, str], address: str) -> dict[str, str]:
    """The environment variables of a client, Docker's or Podman's, of the engine at that address."""
    kept = {name: value for name, value in inherited.items() if name in _OF_ITS_CLIENT}
    return kept | {"DOCKER_HOST": address, "CONTAINER_HOST": address}
