"""The command line of workers in a container of Podman, which offers Docker's API and needs no OCI runtime of ours.

Podman joins namespaces by their paths. Its client looks for these paths too. So the client must see the /proc outside
of the sandbox, which the sandbox's own /proc covers. Podman without root has rights over namespaces in its own user
namespace only. So the sandbox of its workers is made in there.
"""

from collections.abc import Mapping, Sequence

from ddlbench.containers.container import Needs
from ddlbench.containers.docker import JoinedNamespaces, run_arguments
from ddlbench.environments.runtime_environment import RuntimeEnvironment

OWNER = (0, 0)  # the ids of its own user and group in Podman without root
# `podman unshare` may end before the processes that it started; setpriv makes them end with it
PODMANS_USER_NAMESPACE = ("podman", "unshare", "setpriv", "--pdeathsig", "KILL", "--")
_WITH_OUTER_PROC = ("unshare", "--mount", "--", "sh", "-c", 'umount /proc && exec "$0" "$@"')


def podman_argv(
    image: str,
    command: Sequence[str],
    needs: Needs,
    joined: JoinedNamespaces,
    *,
    run: str,
    shared_memory_bytes: int,
) -> list[str]:
    """Make the argv of a container; it must be run in a sandbox.

    Args:
        image: as of `docker_argv`.
        command: as of `docker_argv`.
        needs: as of `docker_argv`.
        joined: as of `docker_argv`.
        run: as of `docker_argv`.
        shared_memory_bytes: as of `docker_argv`.

    Returns:
        The words to execute; they uncover the outer /proc before Podman's client starts.
    """
    return [
        *(*_WITH_OUTER_PROC, "podman", "--remote"),
        *run_arguments(
            image,
            command,
            needs,
            joining=("--network", f"ns:{joined.network}", "--pid", f"ns:{joined.processes}"),
            gpus=("--device", "nvidia.com/gpu=all"),
            variables=needs.variables,
            user=joined.user,
            run=run,
            shared_memory_bytes=shared_memory_bytes,
        ),
    ]


def user_namespace(environments: Mapping[str, RuntimeEnvironment]) -> tuple[str, ...]:
    """Make the words that start a command in the user namespace that the workers' engine needs.

    Args:
        environments: what workers run in, by runtime.

    Returns:
        Words to put before a command; none unless the engine is Podman without root.
    """
    docker = environments.get("docker")
    return PODMANS_USER_NAMESPACE if docker and docker.engine and docker.engine.rootless else ()
