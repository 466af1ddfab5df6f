"""An errand: a module of ours does a job in a sandbox of its own and answers; both are JSON, through files."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.runtime.podman import user_namespace
from ddlbench.runtime.sandbox import run_sandboxed

Job = Mapping[str, Any]


def answer_of(module: str, job: Job, *, what: str = "the probe", logs: Path | None = None) -> Any:
    """What the module makes of the job, as the first process of a sandbox.

    logs: a folder in which the job is kept beside what its workers say. Raises DdlbenchError, saying `what` failed.
    """
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        asked, answer = (logs or Path(folder)) / "job.json", Path(folder) / "answer.json"
        write_atomically(asked, json.dumps(job))
        within = user_namespace(job.get("environments", {}))
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
