"""Environments and images that could not be made: each leaves a record of why, and is tried again by the next start.

What needs such an environment is a gap that names the cause; everything else goes on.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ddlbench.environments.environment import STAMP, create
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically

FOLDER = Path(".environments")
DESCRIPTIONS = (f"{FOLDER}/*/{STAMP}", ".images/*/docker.json", ".images/*/apptainer.json")
NO_ENVIRONMENT: Literal["no_environment"] = (
    "no_environment"  # the status of a point for want of its environment
)
_KINDS = {"bare": "environment", "docker": "image for Docker", "apptainer": "image for Apptainer"}
_OF_A_COMPILER = re.compile(r": (?:fatal )?error:|^CMake Error")
_BUILD_FAILED = "error: subprocess-exited-with-error"


def create_or_record(requirements: Path | str, target: Path | str, *, imports: Sequence[str]) -> str | None:
    """Make an environment as `create` does; where that fails, its environment.json says why. Returns that, or None."""
    try:
        create(requirements, target, imports=imports)
    except DdlbenchError as error:
        record_failure(Path(target) / STAMP, "bare", str(error))
        return str(error)
    return None


def record_failure(stamp: Path, runtime: str, failure: str) -> None:
    """Write down, in the description's place, why what it would describe could not be made."""
    record = {"name": stamp.parent.name, "runtime": runtime, "failure": failure}
    write_atomically(stamp, json.dumps(record, indent=2) + "\n")


def described(stamp: Path) -> dict[str, Any]:
    """What a description says. Raises DdlbenchError where it says that what it would describe could not be made."""
    said: dict[str, Any] = json.loads(stamp.read_text())
    if failure := said.get("failure"):
        raise DdlbenchError(failure)
    return said


def why_not(stamp: Path) -> str | None:
    """Why an environment or image could not be made, in one line; None where it could."""
    said = json.loads(stamp.read_text())
    if "failure" not in said:
        return None
    what = said.get("what") or f"{said['name']} {_KINDS[said.get('runtime', 'bare')]}"
    return f"no {what}: {_gist(said['failure'])}"


def failures(root: Path = Path()) -> dict[Path, str]:
    """The environments and images below `root` that could not be made, by their descriptions, and why, in full."""
    found = {}
    for stamp in sorted(path for pattern in DESCRIPTIONS for path in root.glob(pattern)):
        try:
            said = json.loads(stamp.read_text())
        except (OSError, ValueError):  # half written by hand, say: `create` makes it anew
            continue
        if isinstance(said, dict) and "failure" in said:
            found[stamp] = str(said["failure"])
    return found


def forget(root: Path = Path()) -> None:
    """Have the environments and images below `root` that could not be made tried again."""
    for stamp in failures(root):
        stamp.unlink(missing_ok=True)


def lacks_its_environment(manifest: Path) -> bool:
    """Whether points of this manifest were not measured because their environment could not be made."""
    try:
        entries = json.loads(manifest.read_bytes())["points"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return any(entry["status"] == NO_ENVIRONMENT for entry in entries)


def _gist(failure: str) -> str:
    """The line of an error's text that says most: the compiler's first error, pip's last one, or the last line."""
    head, *lines = (line.strip() for line in failure.splitlines())
    if not lines or "too long" in head:
        return head.removesuffix(":")
    if _BUILD_FAILED in lines[1:]:  # after which pip says at length that something failed
        lines = lines[: lines.index(_BUILD_FAILED, 1)]
    compiling = [line for line in lines if _OF_A_COMPILER.search(line)]
    installing = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return compiling[0] if compiling else [*lines, *installing][-1]
