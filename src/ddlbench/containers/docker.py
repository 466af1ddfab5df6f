"""The command line of workers in a Docker container that joins an emulated host.

The container needs no capability and gets none. The OCI runtime `ddlbench` (containers/oci_runtime.py, which the daemon
must know) makes it join the host's network namespace and the sandbox's process namespace. So its processes end with the
sandbox, even if the driver is killed by `kill -9`, and have the same ids there as the supervisor sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddlbench.containers.container import Needs

OCI_RUNTIME = "ddlbench"
LABEL = "ddlbench.run"
NETWORK, PROCESSES = "DDLBENCH_NETWORK_NAMESPACE", "DDLBENCH_PROCESS_NAMESPACE"
OF_ITS_CLIENT = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_CONFIG")


@dataclass(frozen=True)
class JoinedNamespaces:
    """The namespaces that a container joins, and the user that it works for.

    Attributes:
        network: the path of the host's network namespace, as the daemon sees it.
        processes: the path of the sandbox's process namespace, as the daemon sees it.
        user: the ids of user and group, as the daemon numbers them.
    """

    network: str
    processes: str
    user: tuple[int, int]


def docker_argv(
    image: str,
    command: Sequence[str],
    needs: Needs,
    joined: JoinedNamespaces,
    *,
    run: str,
    shared_memory_bytes: int,
) -> list[str]:
    """Make the argv of a container that uses our standard input and output, and is removed when it ends.

    Args:
        image: the image's id; it is never pulled.
        command: the argv inside.
        needs: what the container gets of the machine.
        joined: the namespaces that it joins; files that it writes belong to this user.
        run: the run's id, for the label.
        shared_memory_bytes: the size of its /dev/shm.

    Returns:
        The words to execute, `docker` first.
    """
    joining = ("--runtime", OCI_RUNTIME, "--network", "host")
    return [
        "docker",
        *run_arguments(
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


def run_arguments(
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
    """Make the arguments of Docker's or Podman's client that run a container with no more than it needs.

    Args:
        image: as of `docker_argv`.
        command: as of `docker_argv`.
        needs: as of `docker_argv`.
        joining: the engine's options that join the host's namespaces.
        gpus: the engine's options that give the GPUs, if they are needed.
        variables: the environment variables inside.
        user: the ids of user and group, as the engine numbers them.
        run: as of `docker_argv`.
        shared_memory_bytes: as of `docker_argv`.

    Returns:
        The words after the client's name, `run` first.
    """
    inside = {**variables, "HOME": "/tmp"}  # in the container, which has one of its own  # nosec B108
    return [
        *("run", "--interactive", "--rm", "--pull", "never"),
        *(*joining, "--label", f"{LABEL}={run}"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        *("--tmpfs", "/tmp"),  # in the container  # nosec B108
        *("--user", "{}:{}".format(*user), "--shm-size", str(shared_memory_bytes)),
        *(gpus if needs.gpus else ()),
        *(word for path, mode in needs.folders.items() for word in ("--volume", f"{path}:{path}:{mode}")),
        *(word for name, value in sorted(inside.items()) for word in ("--env", f"{name}={value}")),
        *_running(image, command),
    ]


def published_argv(image: str, command: Sequence[str], needs: Needs, *, run: str, port: int) -> list[str]:
    """Make the argv of a container on Docker's own bridge.

    Args:
        image: as of `docker_argv`.
        command: as of `docker_argv`.
        needs: as of `docker_argv`.
        run: as of `docker_argv`.
        port: the port inside that the bridge's NAT publishes as the same port of the loopback interface.

    Returns:
        The words to execute, `docker` first.
    """
    return [
        *("docker", "run", "--rm", "--pull", "never", "--label", f"{LABEL}={run}"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        *("--publish", f"127.0.0.1:{port}:{port}"),
        *(word for path, mode in needs.folders.items() for word in ("--volume", f"{path}:{path}:{mode}")),
        *(word for name, value in sorted(needs.variables.items()) for word in ("--env", f"{name}={value}")),
        *_running(image, command),
    ]


def _running(image: str, command: Sequence[str]) -> tuple[str, ...]:
    """The words for image and command: an image's own entrypoint would print something where messages are expected."""
    program, *arguments = command
    return "--entrypoint", program, image, *arguments


def client_environment(inherited: Mapping[str, str], address: str) -> dict[str, str]:
    """Make the environment variables of Docker's or Podman's client.

    Args:
        inherited: our own variables, of which a few are kept.
        address: of the engine, for instance unix:///var/run/docker.sock.

    Returns:
        The kept variables, and the address under the names that Docker and Podman read.
    """
    kept = {name: value for name, value in inherited.items() if name in OF_ITS_CLIENT}
    return kept | {"DOCKER_HOST": address, "CONTAINER_HOST": address}
