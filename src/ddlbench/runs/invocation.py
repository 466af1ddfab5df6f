"""What a call of Snakemake writes down before any job starts: the runs that it wants, and what it measures afresh.

A result that is to be measured afresh has a stamp, which says since when measurements count. A call that is cut short
leaves it, and the next call goes on from there, whether or not that measures afresh too.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import time

from ddlbench.files import read_json, read_regular, write_atomically
from ddlbench.runs.outdated import is_older_than

STAMPS = ".afresh"  # below the results, by their names


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


def stamp_of(result: Path, results: Path) -> Path:
    """Name the stamp of a result.

    Args:
        result: below `results`.
        results: the folder of the configuration's own results.

    Returns:
        The file, which need not exist.
    """
    return results / STAMPS / result.relative_to(results)


def stamp(made: Iterable[Path], results: Path) -> None:
    """Write down that measurements count from now on. A stamp that is there stays: measuring afresh was cut short.

    Args:
        made: the results that are to be measured afresh.
        results: the folder that they are in.
    """
    now = f"{time()}\n"
    for path in (stamp_of(result, results) for result in made):
        if not path.exists():
            write_atomically(path, now)


def settle(made: Iterable[Path], results: Path) -> None:
    """Remove the stamps of results that have been made since.

    Args:
        made: results, of which some may not exist or have no stamp.
        results: the folder that they are in.
    """
    for result in made:
        path = stamp_of(result, results)
        if result.exists() and not is_older_than(result, path):
            path.unlink(missing_ok=True)


def stamped(result: Path, results: Path) -> datetime | None:
    """Read since when measurements of a result count.

    Args:
        result: it need not exist.
        results: the folder that it is in.

    Returns:
        The moment in UTC; None: all count.
    """
    try:
        return datetime.fromtimestamp(float(read_regular(stamp_of(result, results))), UTC)
    except FileNotFoundError:
        return None
