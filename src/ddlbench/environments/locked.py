"""Locked requirements: which interpreter they are for, and pip calls that take exactly what they say."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from ddlbench.environments.commands import call, pip
from ddlbench.errors import DdlbenchError

PREFERRED = "3.11"  # the Python of the images; requirements that name none take it too where it is
_OF_THE_DISTRIBUTION = "/usr/bin/python{}"
_SAID_EVERY_S = 2.0
_ASKED_WITHIN_S = 30
_NO_SUCH_VERSION = "No matching distribution found"

Say = Callable[[str], None]


def interpreter(requirements: Path, what: str) -> str:
    """The Python that `what` is made with: of the version that the requirements ask for (`# python: 3.11`).

    The distribution's own comes first, which images from the same distribution have too; then ours, then any other.
    Requirements that ask for none are content with ours. Raises DdlbenchError where there is no such Python.
    """
    asked = re.search(r"^# python: (\S+)$", requirements.read_text(), re.MULTILINE)
    ours = "{}.{}".format(*sys.version_info)
    version = asked[1] if asked else PREFERRED
    if found := interpreter_of(version):
        return found
    if not asked:
        return sys.executable
    raise DdlbenchError(
        f"{what} needs Python {version}; this is {ours}, and there is no python{version} here"
    )


def interpreter_of(version: str) -> str | None:
    """A Python of this version (`3.11`) that makes virtual environments; None where there is none here."""
    if _makes_environments(of_distribution := _OF_THE_DISTRIBUTION.format(version)):
        return of_distribution
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    return shutil.which(f"python{version}")


def pip_locked(
    python: Path | str,
    command: Sequence[str],
    requirements: Path,
    what: str,
    *,
    timeout_s: float,
    say: Say,
) -> Path:
    """Have pip install or download (`command`, with its options) what `requirements` lock, for that interpreter.

    pip works as this machine configures it. Where it cannot find a build, the requirements' fallback is taken.
    Returns the requirements that were taken.
    """
    text = requirements.read_text()
    progress = _Progress(what, len(re.findall(r"^[A-Za-z0-9][^\s=]*==", text, re.MULTILINE)), say)
    argv = pip(python, *command, "--progress-bar=off", "--require-hashes", "-r", str(requirements))
    try:
        call(argv, what, timeout_s=timeout_s, line_read=progress)
    except DdlbenchError as error:
        fallback = re.search(r"^# fallback: (\S+)$", text, re.MULTILINE)
        if not fallback or _NO_SUCH_VERSION not in str(error):
            raise
        say(f"{what}: pip finds no such build here; taking {fallback[1]}, which may be much larger")
        larger = requirements.with_name(fallback[1])
        return pip_locked(python, command, larger, what, timeout_s=timeout_s, say=say)
    return requirements


def _makes_environments(python: str) -> bool:
    if not os.access(python, os.X_OK):
        return False
    command = [python, "-I", "-c", "import venv"]
    try:
        return subprocess.run(command, capture_output=True, timeout=_ASKED_WITHIN_S).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


class _Progress:
    """Tells from pip's output which package it is at, every few seconds."""

    def __init__(self, what: str, total: int, say: Say) -> None:
        self._what, self._total, self._say = what, total, say
        self._seen: set[str] = set()
        self._said = monotonic()

    def __call__(self, line: str) -> None:
        if line.startswith(("Collecting ", "Processing ")):
            package = re.split(r"[=<>~! ]|-\d", line.split()[1].rsplit("/", 1)[-1])[0]
            self._seen.add(package)
            if monotonic() - self._said >= _SAID_EVERY_S:
                self._said = monotonic()
                self._say(f"{self._what}: package {len(self._seen)} of {self._total}, {package}")
        elif line.startswith("Installing collected"):
            self._say(f"{self._what}: installing {len(self._seen)} packages")
