"""A framework's image, made of its Dockerfile and exactly the packages of its bare environment.

The packages are downloaded outside of the build, by the hashes of their lock, and what is built from its source is
built outside too. So the build needs no network, no certificate and no compiler. `docker.json`, written last,
describes the image.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import docker

from ddlbench.containers import engine
from ddlbench.containers.base_image import DEBIAN_PACKAGES
from ddlbench.containers.builder import Build, build
from ddlbench.environments.environment import LIST_PACKAGES, TIMEOUT_S, packages
from ddlbench.environments.failed_environments import read_description
from ddlbench.environments.locked import Report, find_interpreter, pip_locked
from ddlbench.environments.wheels import Recipe, recipe_beside, wheel
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file, sha256_json

PYTHON = "/opt/ddlbench/bin/python"
BUILT = "built.txt"  # the requirements of what was built from its source, with the wheel's hash
_BUILD = "ddlbench.build"  # the label of all images that were built for one folder of one checkout


def make_image(
    dockerfile: Path,
    requirements: Path,
    *,
    base: Path,
    bare: Sequence[str | Path] = (),
    folder: Path,
    report: Report,
) -> dict[str, Any]:
    """Build the image of a framework, unless the engine has one that was made from the same files.

    Args:
        dockerfile: the Dockerfile; its folder has the name of the image.
        requirements: the lock file.
        base: the description of the image that it begins with.
        bare: the description of its bare environment, if something is built from its source against it.
        folder: a folder to work in, which the caller removes.
        report: is called with lines about the progress.

    Returns:
        The description: name, runtime (docker), image, image_id, base, base_id, python (path inside), python_version,
        packages ({name: version}, as found inside), requirements and their sha256, recipe_sha256 if something was
        built, size_bytes, and sha256, the hash of all that may change a measurement.

    Raises:
        DdlbenchError: a step failed.
    """
    name = dockerfile.parent.name
    started = monotonic()
    base_image = read_description(base)
    environment = next((read_description(Path(each)) for each in bare), {})
    client = engine.connect()
    if engine.image_id(client, base_image["image_id"]) is None:
        raise DdlbenchError(
            f"the image {base_image['image']}, which {name}'s begins with, is not in the engine"
        )
    recipe = recipe_beside(requirements)
    made_from = {
        "requirements_sha256": sha256_file(requirements),
        **({"recipe_sha256": recipe.digest} if recipe else {}),
    }
    making = sha256_json([sha256_file(dockerfile), base_image["layers"], made_from])
    image = f"ddlbench/{name}:{making[:12]}"
    if engine.image_id(client, image) is None:
        report(f"image {name}: collecting its packages")
        context = _context(dockerfile, requirements, base_image, folder, report)
        if recipe:
            _add_built(recipe, environment, context, report)
        label = sha256_json(os.path.abspath(folder))[:12]
        arguments = {
            "BASE": base_image["image"],
            "REQUIREMENTS": next(context.glob("requirements-*.txt")).name,
            "PIP_NO_INDEX": "1",
        }
        labels = {_BUILD: label, "org.opencontainers.image.base.name": base_image["image"]}
        # an image from a registry may lack a library, which the Dockerfile then installs over the network
        network = "none" if base_image["base"] == DEBIAN_PACKAGES else None
        try:
            build(
                client, Build(context, image, arguments, labels, network), report=report, timeout_s=TIMEOUT_S
            )
        finally:
            engine.remove_replaced(client, image, f"{_BUILD}={label}")
    found = _found(client, image)
    image_description = {
        "name": name,
        "runtime": "docker",
        "image": image,
        **found,
        "base": base_image["image"],
        "base_id": base_image["image_id"],
        "requirements": requirements.as_posix(),
        **made_from,
        "sha256": sha256_json([base_image["layers"], found["python_version"], found["packages"], made_from]),
    }
    report(
        f"image {name}: {image}, {len(image_description['packages'])} packages, in {monotonic() - started:.0f} s"
    )
    return image_description


def is_there(image_id: str, client: docker.DockerClient) -> bool:
    """Check whether the engine has an image.

    Args:
        image_id: its id or name.
        client: the engine.

    Returns:
        True if the engine has it.
    """
    return engine.image_id(client, image_id) is not None


def _context(
    dockerfile: Path,
    requirements: Path,
    base: Mapping[str, Any],
    folder: Path,
    report: Report,
) -> Path:
    """Make a folder with all that the build needs: the Dockerfile, the requirements and their packages."""
    what = f"the packages of image {dockerfile.parent.name}"
    version = ".".join(base["python_version"].split(".")[:2])
    if not (python := find_interpreter(version)):
        raise DdlbenchError(
            f"{what} are those of Python {version}, which {base['image']} has, and there is no python{version} here "
            "to choose them. On Debian:  sudo apt-get install python3-venv;  or choose another base in "
            "`containers:` of the configuration"
        )
    context = folder / "context"
    (context / "wheels").mkdir(parents=True)
    download = ["download", "--no-deps", "--only-binary=:all:", f"--dest={context / 'wheels'}"]
    taken = pip_locked(python, download, requirements, what, timeout_s=TIMEOUT_S, report=report)
    shutil.copyfile(taken, context / taken.name)
    shutil.copyfile(dockerfile, context / "Dockerfile")
    return context


def _add_built(recipe: Recipe, bare: Mapping[str, Any], context: Path, report: Report) -> None:
    """Add the wheel that is built from its source to the packages; the bare environment has the same wheel."""
    if "python" not in bare:
        raise DdlbenchError(f"{recipe.name} is built in its bare environment, which there is none of")
    python = Path(bare["python"])
    against = {name: version for name, version in packages(python).items() if name != recipe.name}
    folder = context.parent / "build"
    file, _ = wheel(recipe, python, against, folder, timeout_s=TIMEOUT_S, report=report)
    shutil.copyfile(file, context / "wheels" / file.name)
    pinned = f"{recipe.name}=={recipe.version} --hash=sha256:{sha256_file(file)}\n"
    (context / BUILT).write_text(pinned)


def _found(client: docker.DockerClient, image: str) -> dict[str, Any]:
    """The part of the description that is found inside the image, and its id and size."""
    inside = engine.json_output(client, image, [PYTHON, "-I", "-c", LIST_PACKAGES])
    found = client.images.get(image)
    return {
        "image_id": found.id,
        "python": PYTHON,
        "python_version": inside["python"],
        "packages": inside["packages"],
        "size_bytes": found.attrs["Size"],
    }
