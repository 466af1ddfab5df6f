"""One call of Snakemake, and what its jobs know of each other: the runs that it wants, told before any job starts."""

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
    """One call of Snakemake: the ids of the runs that it wants, and the process that it is."""

    runs: tuple[str, ...]
    pid: int


def announce(path: Path | str, runs: Iterable[str]) -> None:
    """Write down, before any job starts, which runs this invocation wants."""
    write_atomically(path, json.dumps(asdict(Invocation(tuple(sorted(runs)), os.getpid()))))


def invocation(path: Path, run_id: str) -> Invocation:
    """What was announced by the process that this job works for; where nothing was, the run alone."""
    try:
        content = read_json(path)
        announced = Invocation(tuple(content["runs"]), content["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        announced = None
    if announced and announced.pid == os.getppid() and run_id in announced.runs:
        return announced
    return Invocation((run_id,), os.getpid())


def stamp(path: Path | str) -> None:
    """Write down that measuring afresh was asked for now."""
    write_atomically(path, f"{time()}\n")


def stamped(path: Path) -> datetime:
    """When a stamp was made or renewed."""
    return datetime.fromtimestamp(float(read_regular(path)), UTC)
