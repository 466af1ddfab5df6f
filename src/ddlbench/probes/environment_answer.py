"""What a module says that runs in a framework's environment, as a process of its own."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.system.package import package_root
from ddlbench.system.processes import die_with_parent

_SHOWN_LINES = 5


def answer_of(
    python: str,
    module: str,
    arguments: Sequence[str],
    *,
    timeout_s: float,
    failure: str,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a module that prints one JSON object, without a line's end.

    Args:
        python: the interpreter of the environment.
        module: its dotted name.
        arguments: of its command line.
        timeout_s: how long it may take.
        failure: the beginning of the error's text, as `models could not be counted`.
        variables: of the environment, besides ours.

    Returns:
        The object.

    Raises:
        DdlbenchError: it fails or takes too long.
    """
    try:
        done = subprocess.run(
            [python, "-m", module, *arguments],
            env={**os.environ, "PYTHONPATH": package_root(), **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            preexec_fn=die_with_parent,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DdlbenchError(f"{failure}: {error}") from error
    if done.returncode:
        last_lines = "\n  ".join(done.stderr.splitlines()[-_SHOWN_LINES:])
        raise DdlbenchError(f"{failure}: {python} -m {module} failed:\n  {last_lines}")
    last_line = done.stdout.rpartition("\n")[2]  # an import may print lines before it
    answer: dict[str, Any] = json.loads(last_line)
    return answer
