"""A framework's image for Apptainer: one file (SIF), made from the image that the container engine has."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from ddlbench.containers import engine
from ddlbench.containers.unpacked import can_mount, remove_unpacked, unpack_into, unpacked_folder
from ddlbench.environments.commands import in_process_namespace, run_command
from ddlbench.environments.environment import LIST_PACKAGES
from ddlbench.environments.failed_environments import read_description
from ddlbench.environments.locked import Report
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file, sha256_json

TIMEOUT_S = 3600.0
_ANSWER_TIMEOUT_S = 300
COMPRESSION = "-comp zstd -Xcompression-level 3"
HOW_TO_GET_IT = (
    "neither apptainer nor singularity is here. On Debian:  sudo containers/install-apptainer;  elsewhere "
    "apptainer.org has packages, and a way to install it without root"
)


def make_sif(docker: Path, sif: Path, *, folder: Path, report: Report) -> dict[str, Any]:
    """Make a SIF from an image of the container engine.

    Args:
        docker: the file that describes the image (docker.json).
        sif: the file to make.
        folder: a folder to work in, which the caller removes.
        report: is called with lines about the progress.

    Returns:
        The description: the image's keys, with runtime (apptainer), sif (the file), sif_sha256, sif_mtime_ns and
        size_bytes. Its sha256 differs from the image's.

    Raises:
        DdlbenchError: Apptainer is missing, or a step failed.
    """
    docker_image = read_description(docker)
    program = apptainer()
    name, started = docker_image["name"], monotonic()
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    archive, made = folder / "image.tar", folder / sif.name
    report(f"SIF {name}: saving {docker_image['image']}")
    _save(docker_image["image_id"], archive)
    variables = apptainer_variables(os.environ, folder)
    report(f"SIF {name}: packing it")
    try:
        argv = in_process_namespace(sif_argv(program, made, archive))
        run_command(argv, f"SIF {name}", timeout_s=TIMEOUT_S, variables=variables)
    except DdlbenchError as error:
        if "mksquashfs" not in str(error) and "unknown flag" not in str(error):
            raise
        report(f"SIF {name}: without zstd, which this mksquashfs does not have")
        argv = in_process_namespace(sif_argv(program, made, archive, compression=""))
        run_command(argv, f"SIF {name}", timeout_s=TIMEOUT_S, variables=variables)
    asked = made if can_mount() else unpack_into(made, folder / "unpacked", program)
    inside = _ask(program, asked, docker_image["python"], variables)
    if inside != {"python": docker_image["python_version"], "packages": docker_image["packages"]}:
        raise DdlbenchError(
            f"SIF {name} has other packages than {docker_image['image']}, which it was made of"
        )
    remove_unpacked(sif)
    os.replace(made, sif)
    made_of_it = {
        **docker_image,
        "runtime": "apptainer",
        "sif": sif.as_posix(),
        "sif_sha256": sha256_file(sif),
        "sif_mtime_ns": sif.stat().st_mtime_ns,
        "size_bytes": sif.stat().st_size,
        "sha256": sha256_json([docker_image["sha256"], "sif"]),
    }
    if asked != made:
        os.replace(asked, unpacked_folder(sif, str(made_of_it["sif_sha256"])))
    report(f"SIF {name}: {made_of_it['size_bytes'] / 1e6:.0f} MB in {monotonic() - started:.0f} s")
    return made_of_it


def check_sif(sif: Path, sha256: str) -> None:
    """Check a SIF against its description.

    Args:
        sif: the file.
        sha256: the checksum in its description.

    Raises:
        DdlbenchError: the file is missing or has another checksum.
    """
    if not sif.is_file():
        raise DdlbenchError(f"{sif} is missing; it is made anew by the next start")
    if sha256_file(sif) != sha256:
        raise DdlbenchError(
            f"{sif} is damaged: its checksum is not the one in its description; it is made anew by the next start"
        )


def is_untouched(image: Mapping[str, Any]) -> bool:
    """Compare a SIF's size and modification time with its description, which is faster than to compute its checksum.

    Args:
        image: the description, with sif, size_bytes and sif_mtime_ns.

    Returns:
        Whether both are the same; False if there is no such file.
    """
    try:
        now = Path(image["sif"]).stat()
    except FileNotFoundError:
        return False
    return (now.st_size, now.st_mtime_ns) == (image["size_bytes"], image["sif_mtime_ns"])


def apptainer() -> str:
    """Find Apptainer's or Singularity's program on the PATH.

    Returns:
        Its path.

    Raises:
        DdlbenchError: there is none; with how to get it.
    """
    if not (found := shutil.which("apptainer") or shutil.which("singularity")):
        raise DdlbenchError(HOW_TO_GET_IT)
    return found


def apptainer_variables(inherited: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Build the environment variables of an `apptainer build`, which keeps nothing outside of `folder`.

    CAP_SYS_RESOURCE is dropped. A container's root may lack it, and Apptainer would fail when it tries to pass it on.

    Args:
        inherited: the variables of this process.
        folder: for temporary files and the cache.

    Returns:
        The variables.
    """
    own = {"APPTAINER_TMPDIR": str(folder), "APPTAINER_CACHEDIR": str(folder / "cache")}
    as_singularity = {name.replace("APPTAINER", "SINGULARITY"): value for name, value in own.items()}
    return {**inherited, **own, **as_singularity, "APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE"}


def sif_argv(program: str, sif: Path, archive: Path, *, compression: str = COMPRESSION) -> list[str]:
    """Build the command line that makes a SIF from an image that an engine has saved as an archive.

    Args:
        program: the path of Apptainer's program.
        sif: the file to make.
        archive: the tar file of the image.
        compression: options of mksquashfs; empty: its defaults.

    Returns:
        The argv.
    """
    packing = ["--mksquashfs-args", compression] if compression else []
    return [program, "build", "--force", *packing, str(sif), f"docker-archive:{archive}"]


def isolated_argv(program: str, image: Path, command: list[str]) -> list[str]:
    """Build the command line that runs a command in an image without access to this machine's files and variables.

    Args:
        program: the path of Apptainer's program.
        image: a SIF, or the folder of its unpacked files.
        command: the argv inside.

    Returns:
        The argv.
    """
    return [program, "exec", "--containall", "--cleanenv", str(image), *command]


def _save(image: str, archive: Path) -> None:
    with archive.open("wb") as file:
        for chunk in engine.connect().images.get(image).save():
            file.write(chunk)


def _ask(program: str, sif: Path, python: str, variables: Mapping[str, str]) -> Any:
    command = isolated_argv(program, sif, [python, "-I", "-c", LIST_PACKAGES])
    try:
        answer = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=_ANSWER_TIMEOUT_S, check=True
        )
        return json.loads(answer.stdout)
    except subprocess.CalledProcessError as error:
        raise DdlbenchError(f"{sif} does not run:\n  {error.stderr.strip()[-500:]}") from error
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise DdlbenchError(f"{sif} does not run: {error}") from error
