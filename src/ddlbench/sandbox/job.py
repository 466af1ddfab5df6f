"""A job that a module of ddlbench does in a sandbox of its own. Job and answer are dataclasses, in JSON files."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from ddlbench.errors import DdlbenchError, DiskFull
from ddlbench.files import write_atomically
from ddlbench.protocol.codec import read_text, written
from ddlbench.sandbox.sandbox import run_sandboxed

Job = TypeVar("Job")
Answer = TypeVar("Answer")


def answer_of(
    module: str,
    job: object,
    kind: type[Answer],
    *,
    what: str = "the probe",
    logs: Path | None = None,
    within: Sequence[str] = (),
) -> Answer:
    """Run a module as the first process of a new sandbox, give it a job, and read its answer.

    Args:
        module: its name, for `python -m`; its `main` is `do`.
        job: a dataclass.
        kind: the class of the answer, a dataclass.
        what: the name of the job in an error.
        logs: a folder in which the job is kept beside what its workers print; None: the job is not kept.
        within: as of `sandbox_argv`.

    Returns:
        The answer.

    Raises:
        DiskFull: the module's disk is.
        DdlbenchError: the module failed, or this machine allows no sandbox.
    """
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        job_file, answer_file = (logs or Path(folder)) / "job.json", Path(folder) / "answer.json"
        write_atomically(job_file, written(job))
        if status := run_sandboxed(module, [str(job_file), str(answer_file)], within=within):
            where = f", what its workers said in {logs}" if logs else ""
            failure = DiskFull if status == DiskFull.exit_code else DdlbenchError
            raise failure(f"{what} failed (exit status {status}); what it said is above{where}")
        return read_text(kind, answer_file.read_text())


def do(kind: type[Job], work: Callable[[Job], object]) -> int:
    """Do the job that the command line names and write the answer.

    Args:
        kind: the class of the job.
        work: makes the answer, a dataclass.

    Returns:
        The exit status: 0, or the exit code of an error, whose text is printed.
    """
    job_file, answer_file = sys.argv[1:]
    try:
        write_atomically(answer_file, written(work(read_text(kind, Path(job_file).read_text()))))
    except DdlbenchError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    return 0
