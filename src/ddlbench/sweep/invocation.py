"""One call of Snakemake, and what its jobs know of each other: the runs that it wants, told before any job starts."""

import fcntl
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
    """One call of Snakemake: the ids of the runs that it wants, and the process that it is."""

    runs: tuple[str, ...]
    pid: int


def announce(path: Path | str, runs: Iterable[str]) -> None:
    """Write down, before any job starts, which runs this invocation wants."""
    write_atomically(path, json.dumps(asdict(Invocation(tuple(sorted(runs)), os.getpid()))))


def invocation(path: Path, run_id: str) -> Invocation:
    """What was announced by the process that this job works for; where nothing was, the run alone."""
    try:
        told = json.loads(path.read_text())
        announced = Invocation(tuple(told["runs"]), told["pid"])
    except FileNotFoundError:
        announced = None
    if announced and announced.pid == os.getppid() and run_id in announced.runs:
        return announced
    return Invocation((run_id,), os.getpid())


def stamp(path: Path | str, *, renew: bool) -> str:
    """The path of a file that is made where it is missing and changes only when renewed."""
    if renew or not Path(path).exists():
        write_atomically(path, f"{time()}\n")
    return str(path)


def stamped(path: Path) -> datetime:
    """When a stamp was made or renewed."""
    return datetime.fromtimestamp(float(path.read_text()), UTC)


def clear_locks_of_the_dead(folder: Path | str = ".snakemake") -> None:
    """Remove the locks that a killed call of Snakemake has left in its `folder`, if no other call lives.

    Each call holds a shared lock of the kernel's on a file there as long as it lives; who can have it alone is alone.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "ddlbench.alive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        for lock in (folder / "locks").glob("*.lock"):
            lock.unlink(missing_ok=True)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # the descriptor stays open until this process ends
