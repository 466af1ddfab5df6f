"""One call of Snakemake, and what its jobs know of each other: the runs that it wants, told before any job starts."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import time

from ddlbench.files import write_atomically


@dataclass(frozen=True)
class Invocation:
    """One call of Snakemake: the ids of the runs that it wants, when it began, and the process that it is."""

    runs: tuple[str, ...]
    started: float
    pid: int


def announce(path: Path | str, runs: Iterable[str]) -> None:
    """Write down, before any job starts, which runs this invocation wants."""
    write_atomically(path, json.dumps(asdict(Invocation(tuple(sorted(runs)), time(), os.getpid()))))


def invocation(path: Path, run_id: str) -> Invocation:
    """What was announced by the process that this job works for; where nothing was, the run alone."""
    try:
        announced = Invocation(**json.loads(path.read_text()))
    except FileNotFoundError:
        announced = None
    if announced and announced.pid == os.getppid() and run_id in announced.runs:
        return Invocation(tuple(announced.runs), announced.started, announced.pid)
    return Invocation((run_id,), time(), os.getpid())


def stamp(path: Path | str, *, renew: bool) -> str:
    """The path of a file that is made where it is missing and changes only when renewed."""
    if renew or not Path(path).exists():
        write_atomically(path, f"{time()}\n")
    return str(path)
