"""A job in a sandbox of its own: a module of ours does it and answers; both are JSON, through files."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.sandbox.sandbox import run_sandboxed

Job = Mapping[str, Any]


def answer_of(
    module: str, job: Job, *, what: str = "the probe", logs: Path | None = None, within: Sequence[str] = ()
) -> Any:
    """What the module makes of the job, as the first process of a sandbox.

    Args:
        module: its name, for `python -m`.
        job: what it is told, as JSON.
        what: the words for it in an error.
        logs: a folder in which the job is kept beside what its workers say.
        within: as of `sandbox_argv`.

    Raises:
        DdlbenchError: the module failed, or this machine allows no sandbox.
    """
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        asked, answer = (logs or Path(folder)) / "job.json", Path(folder) / "answer.json"
        write_atomically(asked, json.dumps(job))
        if status := run_sandboxed(module, [str(asked), str(answer)], within=within):
            where = f", what its workers said in {logs}" if logs else ""
            raise DdlbenchError(f"{what} failed (exit status {status}); what it said is above{where}")
        return json.loads(answer.read_text())


def do(work: Callable[[Job], Any]) -> int:
    """Do the job that the command line names and write the answer; an error is told in words, and its code returned."""
    asked, answer = sys.argv[1:]
    try:
        write_atomically(answer, json.dumps(work(json.loads(Path(asked).read_text()))))
    except DdlbenchError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    return 0
