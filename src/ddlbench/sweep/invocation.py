"""One call of Snakemake: the runs that it wants, written down before any job starts, for all its jobs."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import time

from ddlbench.files import write_atomically


@dataclass(frozen=True)
class Invocation:
    """One call of Snakemake.

    Attributes:
        runs: the ids of the runs that it wants, sorted.
        pid: the id of its process.
    """

    runs: tuple[str, ...]
    pid: int


def announce(path: Path | str, runs: Iterable[str]) -> None:
    """Write down, before any job starts, which runs this process wants.

    Args:
        path: the file, which is replaced.
        runs: their ids.
    """
    write_atomically(path, json.dumps(asdict(Invocation(tuple(sorted(runs)), os.getpid()))))


def invocation(path: Path, run_id: str) -> Invocation:
    """Read which runs the invocation of a job wants.

    Args:
        path: the file that `announce` wrote.
        run_id: the run of this job.

    Returns:
        What this process's parent announced, if `run_id` is among its runs. Otherwise (no file, another process, as on
        a node of a SLURM job) an invocation with `run_id` alone and this process's id.
    """
    try:
        told = json.loads(path.read_text())
        announced = Invocation(tuple(told["runs"]), told["pid"])
    except FileNotFoundError:
        announced = None
    if announced and announced.pid == os.getppid() and run_id in announced.runs:
        return announced
    return Invocation((run_id,), os.getpid())


def stamp(path: Path | str) -> None:
    """Write down that fresh measurements were asked for now.

    Args:
        path: the file, which is replaced.
    """
    write_atomically(path, f"{time()}\n")


def stamped(path: Path) -> datetime:
    """Read when fresh measurements were asked for.

    Args:
        path: the file that `stamp` wrote.

    Returns:
        The moment in UTC.

    Raises:
        FileNotFoundError: `stamp` has not written the file.
    """
    return datetime.fromtimestamp(float(path.read_text()), UTC)
