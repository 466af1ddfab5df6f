"""Locked requirements: the interpreter that they are for, and pip commands that take exactly the locked packages."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from ddlbench.environments.commands import pip, run_command
from ddlbench.errors import DdlbenchError

PREFERRED = (
    "3.11"  # the Python of the images; taken for requirements that name no version, if it is installed
)
_OF_THE_DISTRIBUTION = "/usr/bin/python{}"
_REPORT_INTERVAL_S = 2.0
_ANSWER_TIMEOUT_S = 30
_NO_SUCH_VERSION = "No matching distribution found"

Report = Callable[[str], None]  # is called with lines about the progress


def interpreter_for(requirements: Path, what: str) -> str:
    """Choose the Python interpreter that an environment is made with.

    The distribution's own comes first, because images of the same distribution have it too; then ours, then any other.

    Args:
        requirements: the lock file; a line `# python: 3.11` names a version. Without this line, `PREFERRED` is taken if
            it is installed, else our own interpreter.
        what: the environment, for the error.

    Returns:
        The path of the interpreter.

    Raises:
        DdlbenchError: there is no Python of this version.
    """
    asked = re.search(r"^# python: (\S+)$", requirements.read_text(), re.MULTILINE)
    ours = "{}.{}".format(*sys.version_info)
    version = asked[1] if asked else PREFERRED
    if found := find_interpreter(version):
        return found
    if not asked:
        return sys.executable
    raise DdlbenchError(
        f"{what} needs Python {version}; this is {ours}, and there is no python{version} here"
    )


def find_interpreter(version: str) -> str | None:
    """Find a Python of a version; the distribution's comes first if it can make virtual environments.

    Args:
        version: major and minor number, for instance `3.11`.

    Returns:
        The path of the interpreter; None if there is none.
    """
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
    report: Report,
) -> Path:
    """Let pip install or download exactly the locked packages.

    pip uses this machine's configuration. If it does not find a build, the fallback that the requirements name is
    taken.

    Args:
        python: the interpreter that the packages are for.
        command: pip's command with its options, for instance ["install"].
        requirements: the lock file; a line `# fallback: FILE` names another one.
        what: what is made, for messages.
        timeout_s: how long pip may take.
        report: is called with lines about the progress.

    Returns:
        The lock file that was taken.

    Raises:
        DdlbenchError: pip failed or took too long; with its last lines.
    """
    text = requirements.read_text()
    progress = _Progress(what, len(re.findall(r"^[A-Za-z0-9][^\s=]*==", text, re.MULTILINE)), report)
    argv = pip(python, *command, "--progress-bar=off", "--require-hashes", "-r", str(requirements))
    try:
        run_command(argv, what, timeout_s=timeout_s, on_line=progress)
    except DdlbenchError as error:
        fallback = re.search(r"^# fallback: (\S+)$", text, re.MULTILINE)
        if not fallback or _NO_SUCH_VERSION not in str(error):
            raise
        report(f"{what}: pip finds no such build here; taking {fallback[1]}, which may be much larger")
        larger = requirements.with_name(fallback[1])
        return pip_locked(python, command, larger, what, timeout_s=timeout_s, report=report)
    return requirements


def _makes_environments(python: str) -> bool:
    if not os.access(python, os.X_OK):
        return False
    command = [python, "-I", "-c", "import venv"]
    try:
        return subprocess.run(command, capture_output=True, timeout=_ANSWER_TIMEOUT_S).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


class _Progress:
    """Reports every few seconds which package pip is working on, from its output."""

    def __init__(self, what: str, total: int, report: Report) -> None:
        self._what, self._total, self._report = what, total, report
        self._seen: set[str] = set()
        self._reported_s = monotonic()

    def __call__(self, line: str) -> None:
        if line.startswith(("Collecting ", "Processing ")):
            package = re.split(r"[=<>~! ]|-\d", line.split()[1].rsplit("/", 1)[-1])[0]
            self._seen.add(package)
            if monotonic() - self._reported_s >= _REPORT_INTERVAL_S:
                self._reported_s = monotonic()
                self._report(f"{self._what}: package {len(self._seen)} of {self._total}, {package}")
        elif line.startswith("Installing collected"):
            self._report(f"{self._what}: installing {len(self._seen)} packages")
