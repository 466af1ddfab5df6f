"""Commands that make environments: pip and what it builds with, none of which outlives us or takes for ever."""

import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from time import monotonic

from ddlbench.errors import DdlbenchError
from ddlbench.system.processes import die_with_parent

_TOLD_LINES = 12  # of the output in an error
_TOLD_ERRORS = 3  # and of the lines before them that speak of an error
_TOLD_LETTERS = 300  # of a line: compilers' commands are longer
_ERROR = re.compile(r"\berror\b[: ]", re.IGNORECASE)
# what pip draws around the words of what it ran, and its patience with a network
_FRAME = re.compile(
    r"WARNING: Retrying|\s*(?:[\u00d7\u2502\u2570]|note:|full command:|cwd:|\[end of output|$)"
)
_PIP_OPTIONS = ("--disable-pip-version-check", "--no-input")


def call(
    command: Sequence[str],
    what: str,
    *,
    timeout_s: float,
    line_read: Callable[[str], None] = lambda line: None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run a command that dies with us; raise DdlbenchError with its last lines where it fails or takes too long.

    what: what it makes, for the error. variables: its whole environment; by default ours, without what Python reads.
    """
    if variables is None:
        unset = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
        variables = {name: value for name, value in os.environ.items() if name not in unset}
    errors: list[str] = []
    last: deque[str] = deque(maxlen=_TOLD_LINES)
    started = monotonic()
    try:
        process = subprocess.Popen(
            command,
            env={**variables, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            preexec_fn=die_with_parent,
        )
    except OSError as error:
        raise DdlbenchError(f"{what} could not be made: {error}") from error
    timer = Timer(timeout_s, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if not _FRAME.match(line):
                last.append(line.rstrip()[:_TOLD_LETTERS])
                if _ERROR.search(last[-1]) and len(errors) < _TOLD_ERRORS:
                    errors.append(last[-1])
            line_read(line)
        status = process.wait()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if status:
        late = f" after {timeout_s:g} s, which is too long" if monotonic() - started >= timeout_s else ""
        told = "\n  ".join([*(line for line in errors if line not in last), *last])
        raise DdlbenchError(f"{what} could not be made: it ended with status {status}{late}:\n  {told}")


def with_its_children(command: Sequence[str]) -> list[str]:
    """The argv of a command that takes all that it starts with it when it ends; only root may ask for that."""
    if os.geteuid() != 0:
        return list(command)
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", *command]


def pip(python: Path | str, command: str, *arguments: str) -> list[str]:
    """The argv of our own pip, which any interpreter can execute: the environment of `python` needs none."""
    spec = find_spec("pip")
    runner = Path((spec and spec.origin) or "").parent / "__pip-runner__.py"
    if not runner.is_file():
        raise DdlbenchError("pip 22.3 or newer is missing here; it makes the frameworks' environments")
    return [str(python), str(runner), command, *_PIP_OPTIONS, *arguments]
