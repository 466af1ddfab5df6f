"""The image that all others begin with: the public one where a registry answers, else made of Debian's packages."""

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
OF_PACKAGES = "Debian packages"  # what a base image comes from that comes from no registry
_NAME = "ddlbench/base"
_REGISTRY_SILENT_S = 20
_BOOTSTRAP_TIMEOUT_S = 1800.0
_EPOCH = "1700000000"  # of every file in it, so that the same packages give the same image
_OF_THIS_MACHINE = (
    "etc/apt/sources.list",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/hostname",
    "etc/resolv.conf",
)
_ASK = 'import json, platform, venv; print(json.dumps({"python": platform.python_version()}))'


def make_base(base: str, folder: Path, *, report: Report) -> dict[str, Any]:
    """Have the base image in the engine: the configured one, or for `auto` and `debian` as the module says.

    folder: one to work in, which the caller removes. Returns its name (image), image_id, base (what it comes from),
    layers, python_version and size_bytes. Raises DdlbenchError where it cannot be had or has no Python with venv.
    """
    client = engine.connect()
    image = _Chosen(client, folder, report).image(base)
    found = client.images.get(image)
    version = engine.answer(client, image, ["python3", "-I", "-c", _ASK])["python"]
    return {
        "name": "base",
        "runtime": "docker",
        "image": image,
        "image_id": found.id,
        "base": OF_PACKAGES if image.startswith(_NAME) else image,
        "layers": found.attrs["RootFS"]["Layers"],
        "python_version": version,
        "size_bytes": found.attrs["Size"],
    }


def bootstrap_argv(suite: str, archive: Path, sources_list: Path) -> list[str]:
    """The command that makes the file tree `archive` (tar) of a suite's packages, which the listed sources have."""
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
    """This machine's own package sources of a suite and its updates, as lines of a sources.list.

    indexes: lines of repository, codename, component and origin, as apt knows them; other origins are left out.
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
        """The image of a registry, unless the engine has it already."""
        if engine.image_id(self._client, image):
            return image
        repository, tag = parse_repository_tag(image)
        self._client.api.timeout = _REGISTRY_SILENT_S
        try:
            for said in self._client.api.pull(repository, tag or "latest", stream=True, decode=True):
                if error := said.get("error"):
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
        # its name in one piece: Podman takes no notice of a tag beside it
        self._client.api.import_image_from_file(str(archive), repository=image, changes=['CMD ["python3"]'])
        return image

    def _scratch(self) -> dict[str, str]:
        """Where root has the files laid out, so that a killed call's are found; others need what all may read."""
        return {"TMPDIR": str(self._folder.resolve())} if os.geteuid() == 0 else {}


def _indexes() -> str:
    """The package indexes that apt uses here: repository, codename, component, origin, one a line."""
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
