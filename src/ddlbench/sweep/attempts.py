"""The attempts at a run: when each began, in which SLURM job, and how it ended, also after SIGKILL or a lost node.

An attempt is written down as open before it begins. If the next attempt finds it still open, it was cut short: by
SIGKILL, a time limit, a lost node. Its measurements are in the store, and the next attempt continues from there.

Only the last attempt in the file may store records. SLURM can give up a job whose driver still runs (for example if
only a node's slurmd has died) and start the job again on other nodes.
"""

import fcntl
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddlbench.cluster.slurm import UNKNOWN, how_it_ended, limit_minutes
from ddlbench.errors import DdlbenchError, DiskFull
from ddlbench.files import read_json, write_atomically
from ddlbench.measurements.store import Store

FILE = "attempts.json"
_LOCK = "attempts.lock"
FAILURE = "failure.txt"  # why a session ended, also if its output is not shown
_OUT_OF_TIME = "TIMEOUT"  # the state of a job that reached its time limit
_TAKEN_AWAY = (
    _OUT_OF_TIME,
    "CANCELLED",
    "PREEMPTED",
    "NODE_FAIL",
    "BOOT_FAIL",
    "DEADLINE",
)  # the states of a job that SLURM ended itself

_KEYS = frozenset({"id", "began", "slurm_job", "how"})  # of each attempt

Attempt = dict[str, Any]


class Superseded(DdlbenchError):
    """A later attempt at the run has begun; this one must not store anything any more."""


@contextmanager
def attempt(
    folder: Path, say: Callable[[str], None], *, has_measured: Callable[[datetime], bool]
) -> Iterator[str]:
    """Note the `with` block as an attempt at a run, and report the last attempt if it was cut short.

    The entry is written before the block begins, and again when it ends, with the text of our error or `done`.

    Args:
        folder: the run's folder of logs; its parent has the study's name.
        say: prints one line for the user.
        has_measured: whether the store has a measurement of this run that began at this moment or later.

    Yields:
        The id of the attempt, for `keep` and `check_current`.

    Raises:
        DdlbenchError: the time limit of the SLURM job is not longer than one that ended the last attempt before its
            first measurement.
    """
    attempts = attempts_in(folder)
    job = os.environ.get("SLURM_JOB_ID")
    if attempts and (how := _cut_short(attempts[-1], job)):
        attempts[-1]["how"] = how
        _amend(folder, attempts[-1])  # SLURM keeps the states of ended jobs for some time only
        say(f"the last attempt was cut short: {how}; what it had measured is kept")
    minutes = limit_minutes(job) if job else None
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
    with _locked(folder):
        _write(folder, [*attempts_in(folder), this])
    try:
        yield this["id"]
    except DdlbenchError as error:
        this["how"] = str(error)
        raise
    except Exception as error:
        this["how"] = f"a fault in ddlbench: {type(error).__name__}: {error}"
        raise
    else:
        this["how"] = "done"
    finally:
        this["ended"] = this["how"] and _now()
        _amend(folder, this)


def keep(record: Mapping[str, Any], store: Store, folder: Path, attempt_id: str) -> Path:
    """Add a record to the store, unless a later attempt at the run has begun.

    A later attempt reads the store when it begins. So a record counts only if it was stored before that moment.

    Args:
        record: one repetition, not sealed yet.
        store: where it goes.
        folder: the run's folder of logs.
        attempt_id: the attempt that measured the record, as `attempt` yields it.

    Returns:
        The record's file.

    Raises:
        Superseded: a later attempt has begun. If it began while the record was stored, the record is withdrawn.
        DdlbenchError: the record cannot be written, for example if the disk is full.
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
    """Check that an attempt is still the last one.

    Args:
        folder: the run's folder of logs.
        attempt_id: the attempt, as `attempt` yields it.

    Raises:
        Superseded: a later attempt at the run has begun.
    """
    if since := _since(folder, attempt_id):
        job = f" in SLURM's job {since['slurm_job']}" if since["slurm_job"] else ""
        raise Superseded(f"another attempt at this run has begun{job}, at {since['began']}; this one ends")


def attempts_in(folder: Path) -> list[Attempt]:
    """Read the attempts at a run.

    Args:
        folder: the run's folder of logs.

    Returns:
        A dictionary for each attempt, oldest first; empty if none was made or the file cannot be read. Keys: `id`;
        `began` and `ended` (ISO 8601, UTC); `slurm_job`; `minutes` of its time limit (None: no limit); `how` it ended.
        `ended` and `how` are None while it goes on, and after it was cut short; the next attempt then fills in `how`.
    """
    try:
        found = read_json(folder / FILE)
    except (OSError, ValueError):
        return []
    is_whole = isinstance(found, list) and all(
        isinstance(each, dict) and each.keys() >= _KEYS for each in found
    )
    return found if is_whole else []


def tell_failure(error: DdlbenchError, run: str, folder: Path) -> None:
    """Say why a session of a run has failed, on standard error and in FAILURE. Of a full disk its driver tells.

    Args:
        error: why.
        run: its id.
        folder: the run's folder of logs.
    """
    if not isinstance(error, DiskFull):
        print(f"run {run}: {error}", file=sys.stderr, flush=True)
    with suppress(DiskFull):
        write_atomically(folder / FAILURE, f"{error}\n")


def _since(folder: Path, attempt_id: str) -> Attempt | None:
    """The last attempt, if it is another one than `attempt_id`."""
    attempts = attempts_in(folder)
    return attempts[-1] if attempts and attempts[-1]["id"] != attempt_id else None


def _refuse_what_was_too_short(
    minutes: int, attempts: list[Attempt], has_measured: Callable[[datetime], bool], *, study: str
) -> None:
    """Raise DdlbenchError if this attempt would fail like the last one.

    That is so if the last one reached its time limit before its first measurement, and this limit is not longer. An
    attempt that fails at once leaves the time to other jobs.
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
    """Say how the last attempt was cut short; None if it was not, or if that is written down already.

    SLURM ends the workers first. Their driver may then report lost workers, but the reason is what SLURM says of the
    job. `now` is the SLURM job that begins.
    """
    seen, job = last["how"], last["slurm_job"]
    if job is None:
        return None if seen else "it was killed"
    if seen and (seen == "done" or _says_slurms_reason(seen, job)):
        return None
    if job == now:
        why = f"SLURM has started its job {job} again (it was pre-empted, or lost a node)"
    else:
        ended = how_it_ended(job)
        if seen and not ended.startswith(_TAKEN_AWAY):
            return None
        why = f"SLURM says of its job {job}: {ended}"
    return f"{seen}; {why}" if seen else why


def _says_slurms_reason(seen: str, job: str) -> bool:
    """Whether what an attempt saw has SLURM's words already; a lost node is reported also when SLURM has none."""
    return "SLURM" in seen.replace(f"SLURM says of job {job}: {UNKNOWN}", "")


def _amend(folder: Path, changed: Attempt) -> None:
    """Write down what is new about the last attempt, unless another one has begun since."""
    with _locked(folder):
        attempts = attempts_in(folder)
        if attempts and attempts[-1]["id"] == changed["id"]:
            _write(folder, [*attempts[:-1], changed])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let nobody else change the file meanwhile, also on another node; where locks are not known, nobody is held up."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as held:
        with suppress(OSError):
            fcntl.lockf(held, fcntl.LOCK_EX)  # the kernel releases it however we end
        yield


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write(folder: Path, attempts: list[Attempt]) -> None:
    write_atomically(folder / FILE, json.dumps(attempts, indent=1) + "\n")
