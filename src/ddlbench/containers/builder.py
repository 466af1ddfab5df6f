"""Building images: with BuildKit, by Docker's client, which can give a build secrets that stay out of the image.

Docker's API has the older builder only. Its Dockerfiles cannot ask for a secret, or for files that leave no layer.
Podman's own builder can, through the same API.
"""

import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from ddlbench.containers.docker import client_environment
from ddlbench.containers.engine import TIMEOUT_S, Engine, image_id
from ddlbench.environments.commands import run_command
from ddlbench.environments.locked import Report
from ddlbench.errors import DdlbenchError

_STEP = re.compile(r"#\d+ (\[.*\d+/\d+\] .+)")
BUILDKIT = {"DOCKER_BUILDKIT": "1"}  # needed by clients before version 23
_SHOWN_LINES = 12
_ANSWER_TIMEOUT_S = 20.0
HOW_TO_GET_IT = (
    "no client of Docker's here can use BuildKit. Debian's docker.io has one; a newer client needs its plugin buildx "
    "(docker-buildx, in Docker's own packages docker-buildx-plugin)"
)


@dataclass(frozen=True)
class Build:
    """An image to be built.

    Attributes:
        context: the folder with the Dockerfile and all that it copies.
        tag: the image's name.
        arguments: the values of the Dockerfile's ARGs.
        labels: of the image.
        network: `none`, or None: the engine's default network.
    """

    context: Path
    tag: str
    arguments: Mapping[str, str]
    labels: Mapping[str, str]
    network: str | None


def build(engine: Engine, wanted: Build, *, report: Report, timeout_s: float = TIMEOUT_S) -> str:
    """Build an image in the engine. The build ends when this process ends.

    Args:
        engine: where it is built.
        wanted: what is built.
        report: is called with each step.
        timeout_s: how long it may take.

    Returns:
        The image's id.

    Raises:
        DdlbenchError: it failed or took too long; with the last lines of the output.
    """
    build_image = _build_by_api if engine.is_podman else _build_by_client
    build_image(engine, wanted, lambda step: report(f"{wanted.tag}: {step}"), timeout_s)
    built = image_id(engine, wanted.tag)
    if built is None:
        raise DdlbenchError(f"the image {wanted.tag} was built, and is not in the engine at {engine.address}")
    return built


def build_argv(program: str, wanted: Build) -> list[str]:
    """Build the command line of a build.

    Args:
        program: the path of Docker's client.
        wanted: what is built.

    Returns:
        The argv.
    """
    return [
        *(program, "build", "--progress", "plain", "--tag", wanted.tag),
        *(("--network", wanted.network) if wanted.network else ()),
        *(word for name, value in wanted.arguments.items() for word in ("--build-arg", f"{name}={value}")),
        *(word for name, value in wanted.labels.items() for word in ("--label", f"{name}={value}")),
        str(wanted.context),
    ]


def _build_by_client(engine: Engine, wanted: Build, report: Report, timeout_s: float) -> None:
    def on_line(line: str) -> None:
        if step := _STEP.match(line):
            report(step[1])

    variables = {**client_environment(os.environ, engine.address), **BUILDKIT}
    argv = build_argv(program(), wanted)
    run_command(argv, f"the image {wanted.tag}", timeout_s=timeout_s, on_line=on_line, variables=variables)


def program() -> str:
    """Find the first `docker` on the PATH that can use BuildKit.

    Returns:
        Its path.

    Raises:
        DdlbenchError: there is none; with how to get one.
    """
    for folder in os.get_exec_path():
        found = shutil.which("docker", path=folder)
        if found and "--secret" in _help(found):
            return found
    raise DdlbenchError(HOW_TO_GET_IT)


def _help(program: str) -> str:
    try:
        return subprocess.run(
            [program, "build", "--help"],
            env={**os.environ, **BUILDKIT},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_ANSWER_TIMEOUT_S,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _build_by_api(engine: Engine, wanted: Build, report: Report, timeout_s: float) -> None:
    deadline = monotonic() + timeout_s
    last: deque[str] = deque(maxlen=_SHOWN_LINES)
    for message in engine.api.build(
        path=str(wanted.context),
        tag=wanted.tag,
        buildargs=dict(wanted.arguments),
        labels=dict(wanted.labels),
        network_mode=wanted.network,
        rm=True,
        forcerm=True,
        decode=True,
    ):
        text = str(message.get("stream", "")).strip()
        last.extend(text.splitlines())
        if text.lower().startswith("step "):
            report(text.splitlines()[0])
        if error := message.get("error"):
            lines = "\n  ".join([*last, str(error).strip()])
            raise DdlbenchError(f"the image {wanted.tag} could not be made:\n  {lines}")
        if monotonic() > deadline:
            raise DdlbenchError(
                f"the image {wanted.tag} could not be made in {timeout_s:g} s, which is too long"
            )
