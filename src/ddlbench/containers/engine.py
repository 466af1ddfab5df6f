"""The container engine of this machine: Docker's, or Podman's socket that speaks as Docker's does."""

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

TIMEOUT_S = 3600.0  # without a word from the engine: pip says nothing while it unpacks gigabytes
_REACHED_WITHIN_S = 10
_ANSWER_TIMEOUT_S = 300
_ASKED = "ddlbench.asked"  # the label of containers that answer one question
HOW_TO_GET_IT = (
    "On Debian:  sudo apt-get install docker.io  (then  sudo usermod -aG docker $USER  and a new login);  or without "
    "root:  sudo apt-get install podman uidmap && systemctl --user start podman.socket.  Another one's address goes "
    "into DOCKER_HOST"
)
FAILURES = (DockerException, RequestException, OSError)


def addresses(variables: Mapping[str, str], uid: int) -> list[str]:
    """Where an engine may listen: where DOCKER_HOST says and nowhere else, else Docker's sockets, then Podman's."""
    if told := variables.get("DOCKER_HOST"):
        return [told]
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
    """An engine that answers, and where."""

    address: str

    @property
    def is_podman(self) -> bool:
        """Whether it is Podman's service."""
        return any("Podman" in each["Name"] for each in self.version().get("Components") or ())


def connect(*wanted: str, answer_within_s: float = TIMEOUT_S) -> Engine:
    """The first engine that answers, of the `wanted` addresses if any are given.

    answer_within_s: how long it may take over anything that it is asked later.
    Raises DdlbenchError, with how to get one, where none does.
    """
    told = []
    for address in wanted or addresses(os.environ, os.getuid()):
        socket = Path(address.removeprefix("unix://"))
        if address.startswith("unix://") and not _exists(socket):
            told.append(f"there is no {socket}")
        elif address.startswith("unix://") and not os.access(socket, os.R_OK | os.W_OK):
            told.append(f"this user may not use {socket}")
        else:
            try:
                return _answering(address, answer_within_s)
            except FAILURES as error:
                told.append(f"{address} does not answer ({_short(error)})")
    raise DdlbenchError(f"no container engine: {'; '.join(told)}. {HOW_TO_GET_IT}")


def _exists(socket: Path) -> bool:
    """Whether there is such a socket; one in a folder that is closed to this user is there."""
    try:
        return socket.exists()
    except PermissionError:
        return True


def _answering(address: str, answer_within_s: float) -> Engine:
    """The engine at an address, which has just answered; later answers may take longer."""
    variables = {**os.environ, "DOCKER_HOST": address}
    reached_within_s = min(_REACHED_WITHIN_S, math.ceil(answer_within_s))
    docker.from_env(timeout=reached_within_s, environment=variables).close()  # asks for the engine's version
    engine = Engine(timeout=math.ceil(answer_within_s), **kwargs_from_env(environment=variables))
    engine.address = address
    return engine


def image_id(client: docker.DockerClient, image: str) -> str | None:
    """The id of the image of that name or id; None where the engine has none such."""
    try:
        return str(client.images.get(image).id)
    except ImageNotFound:
        return None


def answer(client: docker.DockerClient, image: str, command: Sequence[str]) -> Any:
    """The JSON that a command prints in a container of that image, which has no network and no rights.

    Raises DdlbenchError where it fails.
    """
    client.containers.prune(filters={"label": _ASKED, "until": "1h"})  # of a call that was killed
    container = client.containers.create(
        image,
        list(command),
        entrypoint="",
        network_mode="none",
        cap_drop=["ALL"],
        read_only=True,
        labels={_ASKED: ""},
    )
    try:
        container.start()
        status = container.wait(timeout=_ANSWER_TIMEOUT_S)["StatusCode"]
        said = container.logs(stdout=True, stderr=False)
        if status == 0:
            return json.loads(said)
        words = container.logs(stdout=False, stderr=True).decode(errors="replace").strip()
        raise DdlbenchError(
            f"{image}: {command[0]} ended with status {status} in it: {words[-500:] or 'it says nothing'}"
        )
    finally:
        container.remove(force=True)


def keep_only(client: docker.DockerClient, image: str, label: str) -> None:
    """Remove what has this label beside `image`: images that it replaces, and what was left of a build.

    What a container still uses stays, and goes the next time. Podman puts a registry before the names of all images.
    """
    client.images.prune(filters={"dangling": True, "label": label})
    for each in client.images.list(filters={"label": label}):
        for tag in [tag for tag in each.tags if not f"/{tag}".endswith(f"/{image}")]:
            with suppress(APIError):
                client.images.remove(tag)


def _short(error: BaseException) -> str:
    return str(error).strip().splitlines()[-1][:200] if str(error).strip() else type(error).__name__
