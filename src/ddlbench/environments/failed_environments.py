"""Environments and images that could not be made: each has a record of the reason, and the next start tries again.

A point that needs such an environment becomes a gap with the reason; all other points are measured.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ddlbench.environments.environment import STAMP, create
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_json, write_atomically

FOLDER = Path(".environments")
DESCRIPTIONS = (f"{FOLDER}/*/{STAMP}", ".images/*/docker.json", ".images/*/apptainer.json")
NO_ENVIRONMENT: Literal["no_environment"] = (
    "no_environment"  # the status of a point whose environment could not be made
)
_KINDS = {"bare": "environment", "docker": "image for Docker", "apptainer": "image for Apptainer"}
_OF_A_COMPILER = re.compile(r": (?:fatal )?error:|^CMake Error")
_BUILD_FAILED = "error: subprocess-exited-with-error"


def create_or_record(requirements: Path | str, target: Path | str, *, imports: Sequence[str]) -> str | None:
    """Make an environment as `create` does; if that fails, write the reason into its environment.json.

    Args:
        requirements: as of `create`.
        target: as of `create`.
        imports: as of `create`.

    Returns:
        The reason; None if the environment was made.
    """
    try:
        create(requirements, target, imports=imports)
    except DdlbenchError as error:
        record_failure(Path(target) / STAMP, "bare", str(error))
        return str(error)
    return None


def record_failure(stamp: Path, runtime: str, failure: str) -> None:
    """Write why an environment or image could not be made, in place of its description.

    Args:
        stamp: the file of the description.
        runtime: `bare`, `docker` or `apptainer`.
        failure: the reason.
    """
    record = {"name": stamp.parent.name, "runtime": runtime, "failure": failure}
    write_atomically(stamp, json.dumps(record, indent=2) + "\n")


def read_description(stamp: Path) -> dict[str, Any]:
    """Read the description of an environment or image.

    Args:
        stamp: the JSON file of the description.

    Returns:
        Its content.

    Raises:
        DdlbenchError: the environment or image could not be made; with the reason.
    """
    content: dict[str, Any] = read_json(stamp)
    if failure := content.get("failure"):
        raise DdlbenchError(failure)
    return content


def failure_of(stamp: Path) -> str | None:
    """Say why an environment or image could not be made.

    Args:
        stamp: the JSON file of its description.

    Returns:
        The reason, in one line; None if it was made.
    """
    content = read_json(stamp)
    if "failure" not in content:
        return None
    what = content.get("what") or f"{content['name']} {_KINDS[content.get('runtime', 'bare')]}"
    return f"no {what}: {_summary(content['failure'])}"


def failures(root: Path = Path()) -> dict[Path, str]:
    """List the environments and images that could not be made.

    Args:
        root: the folder of the repository.

    Returns:
        {file of the description: the reason, in full}.
    """
    found = {}
    for stamp in sorted(path for pattern in DESCRIPTIONS for path in root.glob(pattern)):
        try:
            content = read_json(stamp)
        except (OSError, ValueError):  # for instance edited by hand; `create` makes it again
            continue
        if isinstance(content, dict) and "failure" in content:
            found[stamp] = str(content["failure"])
    return found


def could_not_be_made(stamp: Path) -> bool:
    """Check whether the making of something has failed and must be tried again.

    Args:
        stamp: the JSON file of its description.

    Returns:
        True if the file cannot be read or states a failure.
    """
    try:
        content = read_json(stamp)
    except (OSError, ValueError):
        return True
    return not isinstance(content, dict) or "failure" in content


def has_lost_its_interpreter(stamp: Path) -> bool:
    """Check whether an environment's interpreter is gone: its folder was moved or emptied, or Python was upgraded.

    Args:
        stamp: the JSON file of its description.

    Returns:
        True if the file names an interpreter of this machine that cannot be run.
    """
    content = read_json(stamp)
    return content.get("runtime") == "bare" and not os.access(content.get("python", ""), os.X_OK)


def _summary(failure: str) -> str:
    """The most informative line of an error's text: the compiler's first error, pip's last one, or the last line."""
    head, *lines = (line.strip() for line in failure.splitlines())
    if not lines or "too long" in head:
        return head.removesuffix(":")
    if _BUILD_FAILED in lines[1:]:  # the lines after it only repeat that something failed
        lines = lines[: lines.index(_BUILD_FAILED, 1)]
    compiling = [line for line in lines if _OF_A_COMPILER.search(line)]
    installing = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return compiling[0] if compiling else [*lines, *installing][-1]
