"""The command of workers in a container of Podman, which answers as a Docker engine and needs no OCI runtime of ours.

Podman joins namespaces by their paths. Its client looks for these paths too; so the client sees the /proc around the
sandbox, which lies below the sandbox's own. Podman without root has rights over the namespaces of its own user
namespace alone; so the sandbox of its workers is made in there.
"""

from collections.abc import Mapping, Sequence

from ddlbench.containers.container import Needs
from ddlbench.containers.docker import Joined, run_words
from ddlbench.environments.runtime_environment import RuntimeEnvironment

OWNER = (0, 0)  # how Podman without root numbers the user whose it is
# `podman unshare` ends without ending what it has started
PODMANS_USER_NAMESPACE = ("podman", "unshare", "setpriv", "--pdeathsig", "KILL", "--")
_WITH_THE_OUTER_PROCESSES = ("unshare", "--mount", "--", "sh", "-c", 'umount /proc && exec "$0" "$@"')


def podman_argv(
    image: str, command: Sequence[str], needs: Needs, joined: Joined, *, run: str, shared_memory_bytes: int
) -> list[str]:
    """The argv of a container, as `docker_argv`; to be called in a sandbox."""
    return [
        *(*_WITH_THE_OUTER_PROCESSES, "podman", "--remote"),
        *run_words(
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
    """The words before a command that make it start in the user namespace that its workers' engine needs; often none.

    environments: descriptions of what workers run in, by runtime.
    """
    docker = environments.get("docker")
    return PODMANS_USER_NAMESPACE if docker and docker.engine and docker.engine.rootless else ()
