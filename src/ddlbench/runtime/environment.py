"""A framework's virtual environment, made from locked requirements, and whole or not there.

A virtual environment cannot be moved, so it is built in its place; `environment.json`, written last, is what says that
it is complete. Without it, whatever lies there is thrown away and made anew.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file, sha256_json, write_atomically
from ddlbench.runtime.processes import die_with_parent

STAMP = "environment.json"
TIMEOUT_S = 1800.0
_TOLD_LINES = 12  # of pip's output in an error
_SAID_EVERY_S = 2.0
_PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--progress-bar=off")
_NO_SUCH_VERSION = "No matching distribution found"
_ASK_PACKAGES = """
import importlib.metadata, json, platform, re
name = lambda found: re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
packages = {name(found): found.version for found in importlib.metadata.distributions()}
print(json.dumps({"python": platform.python_version(), "packages": packages}))
"""


def create(
    requirements: Path | str,
    target: Path | str,
    *,
    timeout_s: float = TIMEOUT_S,
    say: Callable[[str], None] = lambda words: print(words, file=sys.stderr, flush=True),
) -> dict[str, Any]:
    """Make the environment `target` from the locked `requirements`, unless it is there and complete.

    Returns what `target`/environment.json holds: name, python (path of the interpreter), python_version,
    requirements and requirements_sha256, packages ({name: version}), and sha256, which stands for all that may
    change a measurement: the requirements, the packages, and the interpreter's version.
    Raises DdlbenchError with the last lines of pip's output where it fails or takes longer than `timeout_s` seconds.
    """
    requirements, target = Path(requirements), Path(target)
    if not requirements.is_file():
        raise DdlbenchError(
            f"{requirements}: there are no such requirements (environments: in the configuration)"
        )
    if (complete := _complete(target)) and complete["requirements_sha256"] == sha256_file(requirements):
        return complete
    started = monotonic()
    say(f"environment {target.name}: making it from {requirements}")
    _remove(target)
    python = Path(os.path.abspath(target)) / "bin" / "python"
    _call(
        [sys.executable, "-m", "venv", "--without-pip", str(target)], f"environment {target.name}", timeout_s
    )
    _install(python, requirements, target.name, timeout_s, say)
    found = _ask(python)
    sha256 = sha256_file(requirements)
    described = {
        "name": target.name,
        "python": str(python),
        "python_version": found["python"],
        "requirements": requirements.as_posix(),
        "requirements_sha256": sha256,
        "packages": found["packages"],
        "sha256": sha256_json([sha256, found["python"], found["packages"]]),
    }
    write_atomically(target / STAMP, json.dumps(described, indent=2, sort_keys=True) + "\n")
    say(f"environment {target.name}: {len(found['packages'])} packages in {monotonic() - started:.0f} s")
    return described


def packages(python: Path | str) -> dict[str, str]:
    """What is installed for the interpreter `python`: {name: version}."""
    return dict(_ask(python)["packages"])


def _complete(target: Path) -> dict[str, Any] | None:
    """What the environment says of itself; None where it is not complete, or was made elsewhere and moved here."""
    try:
        described: dict[str, Any] = json.loads((target / STAMP).read_text())
        if described["python"] != os.path.join(os.path.abspath(target), "bin", "python"):
            return None
        found = _ask(described["python"])
        same = (found["python"], found["packages"]) == (described["python_version"], described["packages"])
        return described if same else None
    except (OSError, ValueError, KeyError, TypeError, DdlbenchError):
        return None


def _remove(target: Path) -> None:
    (target / STAMP).unlink(missing_ok=True)  # first: what is half removed is not complete
    try:
        if target.exists():
            shutil.rmtree(target)
    except OSError as error:
        raise DdlbenchError(f"{target}: could not be removed to make it anew: {error}") from error


def _install(
    python: Path, requirements: Path, name: str, timeout_s: float, say: Callable[[str], None]
) -> None:
    """Install with pip as this machine configures it; what it cannot find, from the requirements' fallback."""
    what = f"environment {name}"
    text = requirements.read_text()
    progress = _Progress(what, len(re.findall(r"^[A-Za-z0-9][^\s=]*==", text, re.MULTILINE)), say)
    command = [str(python), _pip(), "install", *_PIP_OPTIONS, "--require-hashes", "-r", str(requirements)]
    try:
        _call(command, what, timeout_s, progress)
    except DdlbenchError as error:
        fallback = re.search(r"^# fallback: (\S+)$", text, re.MULTILINE)
        if not fallback or _NO_SUCH_VERSION not in str(error):
            raise
        say(f"{what}: pip finds no such build here; taking {fallback[1]}, which may be much larger")
        _install(python, requirements.with_name(fallback[1]), name, timeout_s, say)


def _pip() -> str:
    """The runner of our own pip, which any interpreter can execute: the new environment needs none."""
    spec = find_spec("pip")
    runner = Path((spec and spec.origin) or "").parent / "__pip-runner__.py"
    if not runner.is_file():
        raise DdlbenchError(
            f"{sys.executable} has no pip (22.3 or newer), which makes the frameworks' environments"
        )
    return str(runner)


class _Progress:
    """Tells from pip's output which package it is at, every few seconds."""

    def __init__(self, what: str, total: int, say: Callable[[str], None]) -> None:
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


def _call(
    command: Sequence[str], what: str, timeout_s: float, line_read: Callable[[str], None] = lambda line: None
) -> None:
    """Run a command that dies with us; raise DdlbenchError with its last lines where it fails or takes too long."""
    last: deque[str] = deque(maxlen=_TOLD_LINES)
    unset = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    variables = {name: value for name, value in os.environ.items() if name not in unset}
    started = monotonic()
    process = subprocess.Popen(
        command,
        env=variables | {"PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=die_with_parent,
    )
    timer = Timer(timeout_s, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("WARNING: Retrying"):
                last.append(line.rstrip())
            line_read(line)
        status = process.wait()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if status:
        late = f" after {timeout_s:g} s, which is too long" if monotonic() - started >= timeout_s else ""
        told = "\n  ".join(last)
        raise DdlbenchError(f"{what} could not be made: it ended with status {status}{late}:\n  {told}")


def _ask(python: Path | str) -> dict[str, Any]:
    """{python: version, packages: {name: version}} of an interpreter."""
    try:
        answer = subprocess.run(
            [str(python), "-I", "-c", _ASK_PACKAGES], capture_output=True, text=True, timeout=60, check=True
        )
        asked: dict[str, Any] = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise DdlbenchError(f"{python}: this interpreter does not work: {error}") from error
    return asked
