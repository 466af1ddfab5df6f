"""The image that all others begin with: the public one if a registry answers, else one made of Debian's packages."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import docker
from docker.utils import parse_repository_tag

from ddlbench.containers import engine
from ddlbench.environments.commands import in_process_namespace, run_command
from ddlbench.environments.locked import Report
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_json

AUTO, DEBIAN = "auto", "debian"
PUBLIC = "python:3.11-slim-bookworm"
PACKAGES = (
    "ca-certificates",
    "libgomp1",
    "libquadmath0",
    "python3",
    "python3-venv",
)  # the libraries are MXNet's
DEBIAN_PACKAGES = "Debian packages"  # the origin of a base image that does not come from a registry
_NAME = "ddlbench/base"
_REGISTRY_SILENT_S = 20
_BOOTSTRAP_TIMEOUT_S = 1800.0
_EPOCH = "1700000000"  # the time of every file in it, so that the same packages give the same image
_OF_THIS_MACHINE = (
    "etc/apt/sources.list",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/hostname",
    "etc/resolv.conf",
)
_ASK = 'import json, platform, venv; print(json.dumps({"python": platform.python_version()}))'


def make_base(base: str, folder: Path, *, report: Report) -> dict[str, Any]:
    """Make or pull the base image, so that the engine has it.

    Args:
        base: the name of an image; `debian`: make it of Debian's packages; `auto`: pull the public image, and if that
            fails, make it of Debian's packages.
        folder: a folder to work in, which the caller removes.
        report: is called with lines about the progress.

    Returns:
        The description: name, runtime, image (its name), image_id, base (what it comes from), layers, python_version,
        size_bytes.

    Raises:
        DdlbenchError: there is no such image, it cannot be made, or it has no Python with venv.
    """
    client = engine.connect()
    image = _Chosen(client, folder, report).image(base)
    found = client.images.get(image)
    version = engine.json_output(client, image, ["python3", "-I", "-c", _ASK])["python"]
    return {
        "name": "base",
        "runtime": "docker",
        "image": image,
        "image_id": found.id,
        "base": DEBIAN_PACKAGES if image.startswith(_NAME) else image,
        "layers": found.attrs["RootFS"]["Layers"],
        "python_version": version,
        "size_bytes": found.attrs["Size"],
    }


def bootstrap_argv(suite: str, archive: Path, sources_list: Path) -> list[str]:
    """Make the argv that creates the files of an image from a suite's packages.

    Args:
        suite: for instance `bookworm`.
        archive: the tar file to make.
        sources_list: a file with the package sources, as of `sources`.

    Returns:
        The words of an `mmdebstrap` command.
    """
    return [
        "mmdebstrap",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        *(f'--customize-hook=rm -f "$1/{file}"' for file in _OF_THIS_MACHINE),
        suite,
        str(archive),
        str(sources_list),
    ]


def sources(suite: str, indexes: str) -> list[str]:
    """List the package sources of a suite and its updates that this machine uses.

    Args:
        suite: for instance `bookworm`.
        indexes: apt's indexes; in each line repository, codename, component and origin. Only Debian's and Ubuntu's are
            taken.

    Returns:
        Lines of a sources.list, each once, in the order of the indexes; empty if no index fits.
    """
    lines = []
    for uri, codename, component, *origin in (line.split() for line in indexes.splitlines() if line.strip()):
        if re.fullmatch(rf"{suite}(-updates|-security)?", codename) and origin in (["Debian"], ["Ubuntu"]):
            lines.append(f"deb {uri} {codename} {component}")
    return list(dict.fromkeys(lines))


class _Chosen:
    def __init__(self, client: docker.DockerClient, folder: Path, report: Report) -> None:
        self._client, self._folder, self._report = client, folder, report

    def image(self, base: str) -> str:
        if base == DEBIAN:
            return self._of_debian_packages()
        if base != AUTO:
            return self._pulled(base)
        try:
            return self._pulled(PUBLIC)
        except DdlbenchError as unreachable:
            self._report(f"{unreachable}; making the base image of Debian's packages")
            try:
                return self._of_debian_packages()
            except DdlbenchError as error:
                raise DdlbenchError(f"no base image: {unreachable}; and {error}") from error

    def _pulled(self, image: str) -> str:
        """Pull an image from a registry, unless the engine has it."""
        if engine.image_id(self._client, image):
            return image
        repository, tag = parse_repository_tag(image)
        self._client.api.timeout = _REGISTRY_SILENT_S
        try:
            for message in self._client.api.pull(repository, tag or "latest", stream=True, decode=True):
                if error := message.get("error"):
                    raise DdlbenchError(f"no registry gives {image} ({error})")
        except engine.FAILURES as error:
            raise DdlbenchError(f"no registry gives {image} ({error})") from error
        finally:
            self._client.api.timeout = int(engine.TIMEOUT_S)
        return image

    def _of_debian_packages(self) -> str:
        suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
        archive, listed = self._folder / "base.tar", self._folder / "sources.list"
        argv = bootstrap_argv(suite, Path(archive.name), Path(listed.name))
        image = f"{_NAME}:{suite}-{sha256_json([argv, _EPOCH])[:12]}"
        if engine.image_id(self._client, image):
            return image
        if not shutil.which("mmdebstrap") or not shutil.which("apt-get"):
            raise DdlbenchError(
                "Debian's packages need mmdebstrap, which is not here. On Debian:  sudo apt-get install mmdebstrap"
            )
        lines = sources(suite, _indexes())
        if not lines:
            raise DdlbenchError(f"apt knows no package sources of {suite or 'this system'} here")
        self._folder.mkdir(parents=True, exist_ok=True)
        listed.write_text("\n".join(lines) + "\n")
        self._report(f"{image}: making it of Debian's packages (once)")
        run_command(
            in_process_namespace(bootstrap_argv(suite, archive, listed)),
            f"the base image {image}",
            timeout_s=_BOOTSTRAP_TIMEOUT_S,
            variables={**os.environ, "SOURCE_DATE_EPOCH": _EPOCH, **self._scratch()},
        )
        # Name and tag in one argument: Podman ignores a tag that is given apart.
        self._client.api.import_image_from_file(str(archive), repository=image, changes=['CMD ["python3"]'])
        return image

    def _scratch(self) -> dict[str, str]:
        """For root, put temporary files into our folder, which is cleared after a crash; others need a public one."""
        return {"TMPDIR": str(self._folder.resolve())} if os.geteuid() == 0 else {}


def _indexes() -> str:
    """List the package indexes of apt on this machine, one a line: repository, codename, component, origin."""
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(CODENAME) $(COMPONENT) $(ORIGIN)",
        "Created-By: Packages",
    ]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise DdlbenchError(f"apt does not tell its package sources: {error}") from error
