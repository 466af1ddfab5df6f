"""The attempts at a run: when each began, in which job of SLURM's, and how it ended, also where nobody could say so.

An attempt is written down as open before it begins. Who finds an open one later knows that it was cut short: by
SIGKILL, a time limit, a lost node. What it had measured is in the store, and the next attempt goes on from there.

The last attempt that is written down is the only one that may store anything. SLURM may have given one up whose driver
goes on, as where a node's slurmd alone has died, and have started its job again elsewhere.
"""

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddlbench.cluster.slurm import how_it_ended, minutes_left
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_json, write_atomically
from ddlbench.measurements.store import Store

FILE = "attempts.json"
FAILURE = "failure.txt"  # why a session ended, also where nobody sees what it prints
_OUT_OF_TIME = "TIMEOUT"  # SLURM's word for it
_TAKEN_AWAY = (
    _OUT_OF_TIME,
    "CANCELLED",
    "PREEMPTED",
    "NODE_FAIL",
    "BOOT_FAIL",
    "DEADLINE",
)  # where it ended a job itself

Attempt = dict[str, Any]


class Superseded(DdlbenchError):
    """Another attempt at the run has begun since; this one must store nothing any more."""


@contextmanager
def attempt(
    folder: Path, say: Callable[[str], None], *, has_measured: Callable[[datetime], bool]
) -> Iterator[str]:
    """Write down, in a run's folder of logs, that the `with` is an attempt at it; tell of one that was cut short.

    has_measured: whether anything of the run is kept that was measured since a moment. Gives the attempt's id, for
    `keep`. Raises DdlbenchError where the time that there is was too short for the last attempt already.
    """
    attempts = attempts_in(folder)
    job = os.environ.get("SLURM_JOB_ID")
    if attempts and (how := _cut_short(attempts[-1], job)):
        attempts[-1]["how"] = how
        _write(folder, attempts)  # SLURM forgets
        say(f"the last attempt was cut short: {how}; what it had measured is kept")
    minutes = minutes_left(job) if job else None
    if attempts and minutes:
        _refuse_what_was_too_short(minutes, attempts, has_measured, study=folder.parent.name)
    this: Attempt = {
        "id": secrets.token_hex(8),
        "began": _now(),
        "slurm_job": job,
        "minutes": minutes,
        "ended": None,
        "how": None,
    }
    _write(folder, [*attempts, this])
    try:
        yield this["id"]
    except DdlbenchError as error:
        this["how"] = str(error)
        raise
    else:
        this["how"] = "done"
    finally:
        this["ended"] = this["how"] and _now()
        if not _since(folder, this["id"]):
            _write(folder, [*attempts, this])


def keep(record: Mapping[str, Any], store: Store, folder: Path, attempt_id: str) -> Path:
    """Add a record to the store; returns its file. Raises Superseded where another attempt at the run has begun.

    Whoever begins looks into the store then: it finds what was kept before, and what was kept after is withdrawn.
    """
    check_current(folder, attempt_id)
    path = store.add(record)
    try:
        check_current(folder, attempt_id)
    except Superseded:
        store.withdraw(path, "another attempt at its run has begun meanwhile")
        raise
    return path


def check_current(folder: Path, attempt_id: str) -> None:
    """Raise Superseded where another attempt at the run has begun since that one."""
    if since := _since(folder, attempt_id):
        job = f" in SLURM's job {since['slurm_job']}" if since["slurm_job"] else ""
        raise Superseded(f"another attempt at this run has begun{job}, at {since['began']}; this one ends")


def attempts_in(folder: Path) -> list[Attempt]:
    """The attempts at a run so far: id, began, slurm_job, minutes (that it had; None: no limit), ended, and how.

    `how` is None for one that goes on or was cut short.
    """
    try:
        found: list[Attempt] = read_json(folder / FILE)
    except (OSError, ValueError):
        return []
    return found


def _since(folder: Path, attempt_id: str) -> Attempt | None:
    """The last attempt, where it is another one."""
    attempts = attempts_in(folder)
    return attempts[-1] if attempts and attempts[-1]["id"] != attempt_id else None


def _refuse_what_was_too_short(
    minutes: int, attempts: list[Attempt], has_measured: Callable[[datetime], bool], *, study: str
) -> None:
    """Raise DdlbenchError where the last attempt had as many minutes, and they were over before it measured anything.

    So would be these: they are left to others.
    """
    last = attempts[-1]
    had = last.get("minutes") or 0
    if minutes <= had and _OUT_OF_TIME in last["how"] and not has_measured(_moment(last["began"])):
        raise DdlbenchError(
            f"the time limit of {had} min ended attempt {len(attempts)} before its first measurement, and now it is "
            f"{minutes} min; ask for more in the configuration:\n"
            f"  cluster: {{studies: {{{study}: {{runtime_min: {2 * had}}}}}}}"
        )


def _cut_short(last: Attempt, now: str | None) -> str | None:
    """How the last attempt was cut short, where it was and that is not written down yet; now: the job that begins.

    SLURM ends workers first, and their driver may see them go and have its own word for that: why is SLURM's to say.
    """
    seen, job = last["how"], last["slurm_job"]
    if job is None:
        return None if seen else "it was killed"
    if seen and (seen == "done" or "SLURM" in seen):
        return None
    if job == now:
        why = f"SLURM has started its job {job} again (it was pre-empted, or lost a node)"
    else:
        ended = how_it_ended(job)
        if seen and not ended.startswith(_TAKEN_AWAY):
            return None
        why = f"SLURM says of its job {job}: {ended}"
    return f"{seen}; {why}" if seen else why


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write(folder: Path, attempts: list[Attempt]) -> None:
    write_atomically(folder / FILE, json.dumps(attempts, indent=1) + "\n")
