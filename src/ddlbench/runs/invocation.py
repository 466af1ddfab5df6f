"""One call of Snakemake: the runs that it wants, written down before any job starts, for all its jobs."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import time

from ddlbench.files import read_json, read_regular, write_atomically


@dataclass(frozen=True)
class Invocation:
    """One call of Snakemake.

    Attributes:
        runs: the ids of the runs that it wants, sorted.
        pid: the id of its process.
        began: when it wrote this down, in seconds since the epoch.
    """

    runs: tuple[str, ...]
    pid: int
    began: float


def announce(path: Path | str, runs: Iterable[str]) -> None:
    """Write down, before any job starts, which runs this process wants.

    Args:
        path: the file, which is replaced.
        runs: their ids.
    """
    write_atomically(path, json.dumps(asdict(Invocation(tuple(sorted(runs)), os.getpid(), time()))))


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
        content = read_json(path)
        announced = Invocation(tuple(content["runs"]), content["pid"], float(content["began"]))
    except (OSError, ValueError, KeyError, TypeError):
        announced = None
    if announced and announced.pid == os.getppid() and run_id in announced.runs:
        return announced
    return Invocation((run_id,), os.getpid(), time())


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
    return datetime.fromtimestamp(float(read_regular(path)), UTC)
