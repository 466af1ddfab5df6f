"""The attempts at a run: how they are known to have ended, and that only the last one counts."""

import json
import stat
from contextlib import ExitStack

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.measurements.store import Store
from ddlbench.sweep import attempts
from ddlbench.sweep.attempts import FILE, Superseded, attempt, attempts_in, check_current, keep
from tests.support.measurement_samples import POINT, a_fingerprint, a_record

TIMED_OUT = "node n2 has gone; SLURM says of job 7: TIMEOUT (TimeLimit)"
UNKNOWN = "node n2 has gone; SLURM says of job 7: unknown"


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def begin(folder, say=print, *, measured=True):
    return attempt(folder, say, has_measured=lambda since: measured)


def leave(folder, how=None, *, job=None, minutes=None):
    left = {"id": "old", "began": "2026-01-01T00:00:00+00:00", "slurm_job": job, "minutes": minutes}
    (folder / FILE).write_text(json.dumps([left | {"ended": None, "how": how}]))


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Job 8 of SLURM's, whose commands are these shell scripts."""

    def commands(**scripts):
        (tmp_path / "bin").mkdir()
        for name, script in scripts.items():
            (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / "bin" / name).chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
        monkeypatch.setenv("SLURM_JOB_ID", "8")

    return commands


def test_an_attempt_is_open_until_it_is_done(tmp_path):
    with begin(tmp_path):
        (going,) = attempts_in(tmp_path)
        assert going["how"] is going["ended"] is None
    (done,) = attempts_in(tmp_path)
    assert done["how"] == "done"
    assert done["ended"]


def test_an_attempt_that_failed_says_why(tmp_path):
    with pytest.raises(DdlbenchError), begin(tmp_path):
        raise DdlbenchError("node n2 has gone")
    assert attempts_in(tmp_path)[0]["how"] == "node n2 has gone"


def test_an_attempt_that_a_fault_of_ours_ended_was_not_killed(tmp_path):
    with pytest.raises(KeyError), begin(tmp_path):
        raise KeyError("links")
    assert attempts_in(tmp_path)[0]["how"] == "a fault in ddlbench: KeyError: 'links'"


def test_an_attempt_that_ends_while_another_one_begins_does_not_remove_it(tmp_path, monkeypatch):
    """The new one has looked at the attempts before the old one ends, and is written down after that."""
    ends = ExitStack()

    def cut_short(last, now):
        ends.close()

    ends.enter_context(begin(tmp_path))
    monkeypatch.setattr(attempts, "_cut_short", cut_short)
    with begin(tmp_path) as current:
        check_current(tmp_path, current)
    assert [each["how"] for each in attempts_in(tmp_path)] == ["done", "done"]


@pytest.mark.parametrize(
    ("job", "why"),
    [(None, "it was killed"), ("7", "SLURM has started its job 7 again (it was pre-empted, or lost a node)")],
)
def test_an_attempt_that_nobody_ended_is_told_by_the_next(tmp_path, monkeypatch, job, why):
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    leave(tmp_path, job=job)
    told = []
    with begin(tmp_path, told.append):
        pass
    assert [each["how"] for each in attempts_in(tmp_path)] == [why, "done"]
    assert told == [f"the last attempt was cut short: {why}; what it had measured is kept"]


@pytest.mark.parametrize(
    ("seen", "state", "how"),
    [
        (None, "TIMEOUT", "SLURM says of its job 7: TIMEOUT (TimeLimit)"),
        ("rank 1 died", "TIMEOUT", "rank 1 died; SLURM says of its job 7: TIMEOUT (TimeLimit)"),
        ("rank 1 died", "CANCELLED", "rank 1 died; SLURM says of its job 7: CANCELLED (TimeLimit)"),
        ("rank 1 died", "FAILED", "rank 1 died"),
        ("done", "TIMEOUT", "done"),
        (TIMED_OUT, "TIMEOUT", TIMED_OUT),
        (UNKNOWN, "TIMEOUT", f"{UNKNOWN}; SLURM says of its job 7: TIMEOUT (TimeLimit)"),
        (UNKNOWN, "FAILED", UNKNOWN),
    ],
)
def test_what_slurm_did_to_an_attempt_is_told_whatever_the_attempt_saw_of_it(
    tmp_path, commands, seen, state, how
):
    commands(scontrol=f"echo JobState={state} Reason=TimeLimit", squeue="echo 0:58")
    leave(tmp_path, seen, job="7")
    told = []
    with begin(tmp_path, told.append):
        pass
    assert [each["how"] for each in attempts_in(tmp_path)] == [how, "done"]
    assert bool(told) == (how != seen)


def test_the_last_attempt_that_has_begun_is_the_only_one_that_may_store_anything(tmp_path):
    with begin(tmp_path) as stale:
        check_current(tmp_path, stale)
        with begin(tmp_path) as current:
            with pytest.raises(Superseded, match="another attempt at this run has begun, at 20"):
                check_current(tmp_path, stale)
            check_current(tmp_path, current)


def test_what_is_kept_while_another_attempt_begins_is_withdrawn(tmp_path):
    class Slow(Store):
        def add(self, record):
            path = super().add(record)
            stack.enter_context(begin(tmp_path))
            return path

    with ExitStack() as stack, begin(tmp_path) as stale:
        kept = keep(a_record(1), Store(tmp_path / "store"), tmp_path, stale)
        for store in (Slow(tmp_path / "store"), Store(tmp_path / "store")):
            with pytest.raises(Superseded):
                keep(a_record(2), store, tmp_path, stale)
    assert [path for path, _ in Store(tmp_path / "store").measurements(a_fingerprint(POINT))] == [kept]


def test_an_attempt_that_is_given_up_does_not_hide_the_one_that_has_begun_since(tmp_path):
    with begin(tmp_path), begin(tmp_path) as current:
        pass
    assert [each["how"] for each in attempts_in(tmp_path)] == ["it was killed", "done"]
    check_current(tmp_path, current)


@pytest.mark.parametrize("damaged", ["null", "{}", "[7]", '[{"id": "old"}]', "[[]"])
def test_a_file_of_attempts_that_is_damaged_hinders_no_new_one(tmp_path, damaged):
    (tmp_path / FILE).write_text(damaged)
    with begin(tmp_path) as current:
        check_current(tmp_path, current)
    assert [each["how"] for each in attempts_in(tmp_path)] == ["done"]


def test_a_time_that_was_too_short_for_the_start_is_not_tried_again(tmp_path, commands):
    leave(tmp_path, TIMED_OUT, job="7", minutes=1)
    commands(squeue="echo 0:58")
    told = "the time limit of 1 min ended attempt 1 before its first measurement, and now it is 1 min; ask for more"
    for _ in range(2):
        with pytest.raises(DdlbenchError, match=told), begin(tmp_path, measured=False):
            pytest.fail("it has begun")
    assert len(attempts_in(tmp_path)) == 1


@pytest.mark.parametrize(
    ("how", "measured", "left"),
    [
        (TIMED_OUT, True, "0:58"),
        (TIMED_OUT, False, "1:58"),
        (TIMED_OUT, False, "UNLIMITED"),
        ("rank 1 died", False, "0:58"),
    ],
)
def test_what_was_not_too_short_or_has_more_time_now_is_tried_again(tmp_path, commands, how, measured, left):
    leave(tmp_path, how, job="7", minutes=1)
    commands(squeue=f"echo {left}", scontrol="exit 1")
    with begin(tmp_path, measured=measured):
        pass
    assert attempts_in(tmp_path)[-1]["how"] == "done"
