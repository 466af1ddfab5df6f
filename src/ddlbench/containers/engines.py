"""The container runtimes of this machine: whether Docker and Apptainer can start workers here, and what to do if not.

Importing Docker's package takes a third of a second, so functions import it only when they need it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddlbench.containers.docker import LABEL, OCI_RUNTIME
from ddlbench.containers.podman import PODMANS_USER_NAMESPACE
from ddlbench.containers.unpacked import can_mount, unpack
from ddlbench.environments.environment import STAMP
from ddlbench.environments.materials import ENVIRONMENTS
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.sandbox.sandbox import check_sandbox
from ddlbench.system.package import package_root

if TYPE_CHECKING:
    from ddlbench.containers.engine import Engine

_WRAPPER = Path("containers/oci_runtime.py")
_ANSWER_TIMEOUT_S = 20.0
_ABANDONED = "1h"


def describe_or_record(runtime: str, output: Path | str) -> str | None:
    """Write the description of a runtime on this machine, or the reason why it cannot be used.

    Args:
        runtime: `docker` or `apptainer`.
        output: the file to write.

    Returns:
        The reason; None if the runtime can be used.
    """
    try:
        found: dict[str, Any] = describe(runtime)
        failure = None
    except DdlbenchError as error:
        failure = str(error)
        found = {"name": runtime, "what": runtime, "failure": failure}
    write_atomically(output, json.dumps(found, indent=2) + "\n")
    return failure


def describe(runtime: str, *, patience_s: float = _ANSWER_TIMEOUT_S) -> dict[str, Any]:
    """Describe a runtime of this machine.

    Args:
        runtime: `docker` or `apptainer`.
        patience_s: how long it may take to answer, in seconds.

    Returns:
        The content of an `Engine` (`environments.runtime_environment`).

    Raises:
        DdlbenchError: it cannot start workers here; with what to do about it.
    """
    return _DESCRIBE[runtime](patience_s)


def check(environments: Mapping[str, RuntimeEnvironment]) -> None:
    """Check that runtimes and their images are still as they were described.

    The description of a runtime that does not answer any more is removed; the next start describes it again, and goes
    on without it if it cannot be used. Containers that a dead daemon has left behind are removed. A SIF that this user
    cannot mount is unpacked.

    Args:
        environments: what workers are to run in, by runtime.

    Raises:
        DdlbenchError: a runtime does not answer, or an image is missing or damaged.
    """
    for runtime in environments.keys() & _DESCRIBE.keys():
        try:
            describe(runtime)
        except DdlbenchError:
            (ENVIRONMENTS / runtime / STAMP).unlink(missing_ok=True)
            raise
    if docker := environments.get("docker"):
        _check_image(docker)
    if apptainer := environments.get("apptainer"):
        from ddlbench.containers.sif import check_sif

        sif, sha256 = Path(apptainer.sif or ""), apptainer.sif_sha256 or ""
        check_sif(sif, sha256)
        if apptainer.engine and apptainer.engine.unpacked:
            unpack(sif, sha256, apptainer.engine.program)


@contextmanager
def answering(within_s: float = _ANSWER_TIMEOUT_S) -> "Iterator[Engine]":
    """Connect to the container engine for questions that it answers at once.

    Args:
        within_s: how long each answer may take, in seconds.

    Yields:
        The engine, which is disconnected in the end.

    Raises:
        DdlbenchError: none answers, or this one not any more.
    """
    from ddlbench.containers import engine

    try:
        with closing(engine.connect(answer_within_s=within_s)) as client:
            yield client
    except engine.FAILURES as error:
        raise DdlbenchError(f"the container engine does not answer any more: {error}") from None


def _check_image(docker: RuntimeEnvironment) -> None:
    from ddlbench.containers.image import is_there

    with answering() as client:
        if not is_there(docker.image_id or "", client):
            raise DdlbenchError(
                f"{docker.image} is not in the container engine any more; the next start makes it again"
            )
        _prune(client)


def remove_abandoned_containers() -> list[str]:
    """Remove the containers that remain after a daemon was killed, if a container engine answers.

    Returns:
        The ids of those that were removed.
    """
    try:
        with answering() as client:
            return _prune(client)
    except DdlbenchError:
        return []


def _prune(client: "Engine") -> list[str]:
    from ddlbench.containers import engine

    try:
        answer = client.containers.prune(filters={"label": LABEL, "until": _ABANDONED})
    except engine.FAILURES:  # Docker refuses while somebody else prunes
        return []
    return list(answer.get("ContainersDeleted") or [])


def why_no_bridge() -> str | None:
    """Find out why Docker's own bridge cannot be measured on this machine.

    Returns:
        The reason; None if it can be measured.

    Raises:
        DdlbenchError: no container engine answers.
    """
    with answering() as client:
        if client.is_podman:
            return "this engine is Podman, and the bridge asked about is Docker's"
        names = [network.name for network in client.networks.list()]
    return None if "bridge" in names else "this Docker daemon has no bridge (--bridge=none)"


def _docker(patience_s: float = _ANSWER_TIMEOUT_S) -> dict[str, Any]:
    where = os.environ.get("DOCKER_HOST", "")
    if where and not where.startswith("unix://"):
        raise DdlbenchError(
            f"Docker's daemon must be on this machine to join its emulated hosts, and DOCKER_HOST is {where}"
        )
    with answering(patience_s) as client:
        address, info, podman = client.address, client.info(), client.is_podman
    options = info.get("SecurityOptions") or ()  # Docker lists it there, Podman has a key for it
    rootless = bool(info.get("Rootless")) or any("rootless" in option for option in options)
    if podman:
        _check_podman(address, rootless=rootless, patience_s=patience_s)
    else:
        _check_docker(info, rootless=rootless)
    return {
        "name": "podman" if podman else "docker",
        "version": info["ServerVersion"],
        "storage": info.get("Driver"),
        "rootless": rootless,
        "address": address,
    }


def _check_docker(info: Mapping[str, Any], *, rootless: bool) -> None:
    if shutil.which("docker") is None:
        raise DdlbenchError(
            "Docker's client, docker, is not installed. On Debian:  apt-get install docker.io"
        )
    if rootless:
        raise DdlbenchError(
            "this Docker daemon is rootless, and cannot join emulated hosts; Podman and Apptainer need no root for that"
        )
    if OCI_RUNTIME not in (info.get("Runtimes") or {}):
        wrapper = json.dumps({"runtimes": {OCI_RUNTIME: {"path": str(_wrapper())}}})
        raise DdlbenchError(
            f"this Docker daemon does not know the runtime {OCI_RUNTIME}, with which containers join emulated "
            f"hosts. Add to /etc/docker/daemon.json:  {wrapper}  and have it read that:  systemctl reload docker"
        )


def _wrapper() -> Path:
    """Our OCI runtime: the one that a wheel has installed (pyproject.toml), else that of the checkout we run from."""
    package = Path(package_root())
    installed = package / "ddlbench/shipped" / _WRAPPER
    return installed if installed.is_file() else package.parent / _WRAPPER


def _check_podman(address: str, *, rootless: bool, patience_s: float) -> None:
    """Check that Podman's client is here and, without root, that a sandbox can be made in its user namespace."""
    if shutil.which("podman") is None:
        raise DdlbenchError(f"{address} is Podman's, whose program podman is not on the PATH")
    if not rootless:
        return
    if os.geteuid() == 0:
        raise DdlbenchError(
            f"{address} is the Podman of another user, who may measure with it; root has its own"
        )
    try:
        check_sandbox(PODMANS_USER_NAMESPACE, patience_s=patience_s)
    except DdlbenchError as error:
        raise DdlbenchError(f"Podman makes no user namespace for its containers here: {error}") from None


def _apptainer(patience_s: float = _ANSWER_TIMEOUT_S) -> dict[str, Any]:
    from ddlbench.containers.sif import apptainer

    program = apptainer()
    try:
        answer = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=patience_s,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DdlbenchError(f"{program} does not work: {error}") from None
    if answer.returncode:
        raise DdlbenchError(f"{program} does not work: {answer.stderr.strip()}")
    return {
        "name": "apptainer",
        "version": answer.stdout.split()[-1],
        "program": program,
        "unpacked": not can_mount(),
    }


_DESCRIBE = {"docker": _docker, "apptainer": _apptainer}
