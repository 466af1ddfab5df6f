"""The container engine of this machine: Docker, or Podman, whose socket offers Docker's API."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from docker.utils import kwargs_from_env
from requests.exceptions import RequestException

from ddlbench.errors import DdlbenchError

TIMEOUT_S = 3600.0  # of silence: pip prints nothing while it unpacks gigabytes
_REACHED_WITHIN_S = 10
_ANSWER_TIMEOUT_S = 300
_QUERY_LABEL = "ddlbench.asked"  # the label of containers that run one short command
HOW_TO_GET_IT = (
    "On Debian:  sudo apt-get install docker.io  (then  sudo usermod -aG docker $USER  and a new login);  or without "
    "root:  sudo apt-get install podman uidmap && systemctl --user start podman.socket.  Another one's address goes "
    "into DOCKER_HOST"
)
FAILURES = (DockerException, RequestException, OSError)


def addresses(variables: Mapping[str, str], uid: int) -> list[str]:
    """List the addresses where an engine may listen.

    Args:
        variables: our environment variables, with DOCKER_HOST and XDG_RUNTIME_DIR if they are set.
        uid: our user id, which names the folder of our sockets without XDG_RUNTIME_DIR.

    Returns:
        DOCKER_HOST alone if it is set, else Docker's sockets, then Podman's.
    """
    if address := variables.get("DOCKER_HOST"):
        return [address]
    own = variables.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    return [
        f"unix://{socket}"
        for socket in (
            "/var/run/docker.sock",
            f"{own}/docker.sock",
            f"{own}/podman/podman.sock",
            "/run/podman/podman.sock",
        )
    ]


class Engine(docker.DockerClient):
    """An engine that answers, and its address."""

    address: str

    @property
    def is_podman(self) -> bool:
        """Whether it is Podman."""
        return any("Podman" in each["Name"] for each in self.version().get("Components") or ())


def connect(*wanted: str, answer_within_s: float = TIMEOUT_S) -> Engine:
    """Connect to the first engine that answers.

    Args:
        *wanted: addresses to try; none: those of `addresses`.
        answer_within_s: how long the engine may take for each later request, in seconds.

    Returns:
        A client that is connected to the engine.

    Raises:
        DdlbenchError: none answers; with the reason for each address, and how to get an engine.
    """
    reasons = []
    for address in wanted or addresses(os.environ, os.getuid()):
        socket = Path(address.removeprefix("unix://"))
        if address.startswith("unix://") and not _exists(socket):
            reasons.append(f"there is no {socket}")
        elif address.startswith("unix://") and not os.access(socket, os.R_OK | os.W_OK):
            reasons.append(f"this user may not use {socket}")
        else:
            try:
                return _answering(address, answer_within_s)
            except FAILURES as error:
                reasons.append(f"{address} does not answer ({_short(error)})")
    raise DdlbenchError(f"no container engine: {'; '.join(reasons)}. {HOW_TO_GET_IT}")


def _exists(socket: Path) -> bool:
    """Check whether a socket exists; one in a folder that this user may not read counts as existing."""
    try:
        return socket.exists()
    except PermissionError:
        return True


def _answering(address: str, answer_within_s: float) -> Engine:
    """Connect to the engine at an address. It must answer soon; later answers may take longer."""
    variables = {**os.environ, "DOCKER_HOST": address}
    reached_within_s = min(_REACHED_WITHIN_S, math.ceil(answer_within_s))
    docker.from_env(timeout=reached_within_s, environment=variables).close()  # gets the engine's version
    engine = Engine(timeout=math.ceil(answer_within_s), **kwargs_from_env(environment=variables))
    engine.address = address
    return engine


def image_id(client: docker.DockerClient, image: str) -> str | None:
    """Find the id of an image.

    Args:
        client: the engine.
        image: its name or id.

    Returns:
        The id; None if the engine does not have the image.
    """
    try:
        return str(client.images.get(image).id)
    except ImageNotFound:
        return None


def json_output(client: docker.DockerClient, image: str, command: Sequence[str]) -> Any:
    """Run a command in a container without network and rights, and read the JSON that it prints.

    Args:
        client: the engine.
        image: the image of the container.
        command: the argv inside.

    Returns:
        The decoded JSON of its standard output.

    Raises:
        DdlbenchError: the command failed; with what it printed.
    """
    with suppress(APIError):  # Docker refuses while somebody else prunes
        # what a process has left that was killed
        client.containers.prune(filters={"label": _QUERY_LABEL, "until": "1h"})
    container = client.containers.create(
        image,
        list(command),
        entrypoint="",
        network_mode="none",
        cap_drop=["ALL"],
        read_only=True,
        labels={_QUERY_LABEL: ""},
    )
    try:
        container.start()
        status = container.wait(timeout=_ANSWER_TIMEOUT_S)["StatusCode"]
        output = container.logs(stdout=True, stderr=False)
        if status == 0:
            return json.loads(output)
        errors = container.logs(stdout=False, stderr=True).decode(errors="replace").strip()
        raise DdlbenchError(
            f"{image}: {command[0]} ended with status {status} in it: {errors[-500:] or 'it printed nothing'}"
        )
    finally:
        container.remove(force=True)


def remove_replaced(client: docker.DockerClient, image: str, label: str) -> None:
    """Remove all images with a label except one: images that it replaces, and remains of a build.

    An image that a container still uses stays, and is removed the next time.

    Args:
        client: the engine.
        image: the image that stays; Podman puts a registry before its name.
        label: `key=value`.
    """
    with suppress(APIError):  # Docker refuses while somebody else prunes
        client.images.prune(filters={"dangling": True, "label": label})
    for each in client.images.list(filters={"label": label}):
        for tag in [tag for tag in each.tags if not f"/{tag}".endswith(f"/{image}")]:
            with suppress(APIError):
                client.images.remove(tag)


def _short(error: BaseException) -> str:
    return str(error).strip().splitlines()[-1][:200] if str(error).strip() else type(error).__name__
