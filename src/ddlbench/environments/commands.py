"""Commands that make environments and images, for instance pip.

They end with the process that starts them, and each has a time limit; so does all that they start themselves.
"""

import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from time import monotonic

from ddlbench.errors import DdlbenchError
from ddlbench.system.processes import die_with_parent

_SHOWN_LINES = 12  # of the output in an error
_SHOWN_ERRORS = 3  # of the earlier lines that mention an error
_SHOWN_CHARACTERS = 300  # of a line; the commands of compilers are longer
_ERROR = re.compile(r"\berror\b[: ]", re.IGNORECASE)
# What pip prints around the output of the commands that it ran, and while it tries a network again.
_FRAME = re.compile(
    r"WARNING: Retrying|\s*(?:[\u00d7\u2502\u2570]|note:|full command:|cwd:|\[end of output|$)"
)
# The kernel tells a child alone that we have ended. So this one tells what the command has started: their group is its.
_WITH_ALL_IT_STARTS = ("sh", "-c", 'trap "kill -KILL 0" TERM; "$@" & wait $!', "sh")
_PIP_OPTIONS = ("--disable-pip-version-check", "--no-input")


def run_command(
    command: Sequence[str],
    what: str,
    *,
    timeout_s: float,
    on_line: Callable[[str], None] = lambda line: None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run a command, which is killed with all that it has started if this process ends first or the time is up.

    It gets no Ctrl-C of a terminal's; whoever calls this does, and ends it.

    Args:
        command: its argv.
        what: what it makes, for the error.
        timeout_s: how long it may take.
        on_line: is called with each line of its output.
        variables: all its environment variables; None: ours, without those that Python reads.

    Raises:
        DdlbenchError: it failed or took too long; with its first errors and its last lines.
    """
    if variables is None:
        unset = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
        variables = {name: value for name, value in os.environ.items() if name not in unset}
    errors: list[str] = []
    last: deque[str] = deque(maxlen=_SHOWN_LINES)
    started = monotonic()
    try:
        process = subprocess.Popen(
            [*_WITH_ALL_IT_STARTS, *command],
            env={**variables, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=partial(die_with_parent, signal.SIGTERM),
        )
    except OSError as error:
        raise DdlbenchError(f"{what} could not be made: {error}") from error
    timer = Timer(timeout_s, partial(os.killpg, process.pid, signal.SIGKILL))
    timer.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if not _FRAME.match(line):
                last.append(line.rstrip()[:_SHOWN_CHARACTERS])
                if _ERROR.search(last[-1]) and len(errors) < _SHOWN_ERRORS:
                    errors.append(last[-1])
            on_line(line)
        # As long as nobody has waited for it, the number of its group is of no other one.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    finally:
        timer.cancel()
        os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    if status:
        late = f" after {timeout_s:g} s, which is too long" if monotonic() - started >= timeout_s else ""
        lines = "\n  ".join([*(line for line in errors if line not in last), *last])
        raise DdlbenchError(f"{what} could not be made: it ended with status {status}{late}:\n  {lines}")


def in_process_namespace(command: Sequence[str]) -> list[str]:
    """Make the argv of a command in a process namespace of its own.

    When the command ends, all processes that it started end too. Only root may make such a namespace; for other users
    the argv stays as it is.

    Args:
        command: the argv to run.

    Returns:
        The words to execute.
    """
    if os.geteuid() != 0:
        return list(command)
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", *command]


def pip(python: Path | str, command: str, *arguments: str) -> list[str]:
    """Make the argv of our own pip, run by another interpreter, whose environment needs no pip.

    Args:
        python: the interpreter, for whose environment pip works.
        command: `install`, `download`, `wheel`, ...
        *arguments: of the command.

    Returns:
        The words to execute.

    Raises:
        DdlbenchError: our own environment has no pip, or an old one.
    """
    spec = find_spec("pip")
    runner = Path((spec and spec.origin) or "").parent / "__pip-runner__.py"
    if not runner.is_file():
        raise DdlbenchError("pip 22.3 or newer is missing here; it makes the frameworks' environments")
    return [str(python), str(runner), command, *_PIP_OPTIONS, *arguments]
