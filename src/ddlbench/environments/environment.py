"""A framework's virtual environment, made from locked requirements. An incomplete one is never used.

A virtual environment cannot be moved, so it is built in its place. `environment.json` is written last and marks it as
complete. Without this file, the folder is removed and made again.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from ddlbench.environments.commands import pip, run_command
from ddlbench.environments.locked import interpreter_for, pip_locked
from ddlbench.environments.wheels import recipe_beside, wheel
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_json, sha256_file, sha256_json, write_atomically

STAMP = "environment.json"
TIMEOUT_S = (
    3600.0  # of one step; building Horovod takes five minutes on two cores, and many more on busy ones
)
IMPORTS = {  # an environment's name: what must be importable there
    "torch": ("torch",),
    "tensorflow": ("tensorflow",),
    "horovod": ("horovod.torch", "horovod.tensorflow"),
    "mxnet": ("mxnet",),
}
_IMPORT_TIMEOUT_S = 300.0
LIST_PACKAGES = """
import importlib.metadata, json, platform, re
name = lambda found: re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
packages = {name(found): found.version for found in importlib.metadata.distributions()}
print(json.dumps({"python": platform.python_version(), "packages": packages}))
"""


def create(
    requirements: Path | str,
    target: Path | str,
    *,
    imports: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
    report: Callable[[str], None] = lambda words: print(words, file=sys.stderr, flush=True),
) -> dict[str, Any]:
    """Make an environment from locked requirements, unless it is complete already.

    If there is a recipe beside the requirements, what it describes is built and installed too.

    Args:
        requirements: the lock file.
        target: the folder of the environment.
        imports: modules that must be importable there.
        timeout_s: of each step.
        report: is called with lines about the progress.

    Returns:
        The content of `target`/environment.json: name, runtime (bare), python (path of the interpreter),
        python_version, requirements and requirements_sha256, packages ({name: version}), recipe_sha256 if something was
        built, and sha256, the hash of all that may change a measurement: the requirements, the packages, the
        interpreter's version, and what was built.

    Raises:
        DdlbenchError: a step failed or took too long; with the last lines of its output.
    """
    requirements, target = Path(requirements), Path(target)
    if not requirements.is_file():
        raise DdlbenchError(
            f"{requirements}: there are no such requirements (environments: in the configuration)"
        )
    recipe = recipe_beside(requirements)
    made_from = {"requirements_sha256": sha256_file(requirements)} | (
        {"recipe_sha256": recipe.digest} if recipe else {}
    )
    if (complete := _complete(target)) and made_from.items() <= complete.items():
        return complete
    started = monotonic()
    what = f"environment {target.name}"
    report(f"{what}: making it from {requirements}")
    _remove(target)
    python = Path(os.path.abspath(target)) / "bin" / "python"
    command = [interpreter_for(requirements, what), "-m", "venv", "--without-pip", str(target)]
    run_command(command, what, timeout_s=timeout_s)
    pip_locked(python, ["install"], requirements, what, timeout_s=timeout_s, report=report)
    built = []
    if recipe:
        folder = Path(os.path.abspath(target)) / "build"
        file, key = wheel(recipe, python, packages(python), folder, timeout_s=timeout_s, report=report)
        run_command(pip(python, "install", "--no-deps", "--no-index", str(file)), what, timeout_s=timeout_s)
        shutil.rmtree(folder, ignore_errors=True)
        built.append(key)
    if imports:
        command = [str(python), "-I", "-c", f"import {', '.join(imports)}"]
        run_command(command, f"{what} (importing {' and '.join(imports)})", timeout_s=_IMPORT_TIMEOUT_S)
    found = _describe(python)
    described = {
        "name": target.name,
        "runtime": "bare",
        "python": str(python),
        "python_version": found["python"],
        "requirements": requirements.as_posix(),
        **made_from,
        "packages": found["packages"],
        "sha256": sha256_json([made_from["requirements_sha256"], found["python"], found["packages"], *built]),
    }
    write_atomically(target / STAMP, json.dumps(described, indent=2, sort_keys=True) + "\n")
    report(f"{what}: {len(found['packages'])} packages in {monotonic() - started:.0f} s")
    return described


def packages(python: Path | str) -> dict[str, str]:
    """List the packages that are installed for an interpreter.

    Args:
        python: the path of the interpreter.

    Returns:
        The versions by name: {name: version}.

    Raises:
        DdlbenchError: the interpreter does not work.
    """
    return dict(_describe(python)["packages"])


def _complete(target: Path) -> dict[str, Any] | None:
    """The content of environment.json; None if the environment is not complete, or was moved here."""
    try:
        described: dict[str, Any] = read_json(target / STAMP)
        if described["python"] != os.path.join(os.path.abspath(target), "bin", "python"):
            return None
        found = _describe(described["python"])
        same = (found["python"], found["packages"]) == (described["python_version"], described["packages"])
        return described if same else None
    except (OSError, ValueError, KeyError, TypeError, DdlbenchError):
        return None


def _remove(target: Path) -> None:
    (target / STAMP).unlink(
        missing_ok=True
    )  # first, so that a half removed environment does not count as complete
    try:
        if target.exists():
            shutil.rmtree(target)
    except OSError as error:
        raise DdlbenchError(f"{target}: could not be removed to make it anew: {error}") from error


def _describe(python: Path | str) -> dict[str, Any]:
    """The version and packages of an interpreter: {python: version, packages: {name: version}}."""
    try:
        answer = subprocess.run(
            [str(python), "-I", "-c", LIST_PACKAGES], capture_output=True, text=True, timeout=60, check=True
        )
        found: dict[str, Any] = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise DdlbenchError(f"{python}: this interpreter does not work: {error}") from error
    return found
