"""What the jobs of one call of Snakemake know of each other, and what a killed call leaves behind."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from ddlbench.sweep.invocation import announce, clear_locks_of_the_dead, invocation, stamp, stamped

ANNOUNCE = "from ddlbench.sweep.invocation import *; announce('invocation.json', ['b', 'a'])"
JOB = "from ddlbench.sweep.invocation import *; print(invocation(Path('invocation.json'), {run!r}).runs)"
CALL = "import subprocess, sys; {announce}; subprocess.run([sys.executable, '-c', sys.argv[1]])"
HOLD = (
    "from ddlbench.sweep.invocation import *; clear_locks_of_the_dead(); print('held', flush=True); input()"
)


@pytest.mark.parametrize(("run", "runs"), [("a", "('a', 'b')"), ("c", "('c',)")])
def test_a_job_knows_the_runs_that_its_own_call_wants(tmp_path, run, runs):
    command = [sys.executable, "-c", CALL.format(announce=ANNOUNCE), JOB.format(run=run)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert answer.stdout.strip() == runs, answer.stderr


def test_a_job_does_not_believe_what_another_call_has_announced(tmp_path):
    announce(tmp_path / "invocation.json", ["a", "b"])  # by this process, whose child this process is not
    assert invocation(tmp_path / "invocation.json", "a").runs == ("a",)


def test_a_job_by_itself_wants_itself(tmp_path):
    alone = invocation(tmp_path / "nothing.json", "a")
    assert alone.runs == ("a",)
    assert alone.pid == os.getpid()


def test_a_stamp_changes_only_when_it_is_renewed(tmp_path):
    path = tmp_path / "results/.fresh"
    assert stamp(path, renew=False) == str(path)
    first = stamped(path)
    stamp(path, renew=False)
    assert stamped(path) == first
    stamp(path, renew=True)
    assert first < stamped(path) <= datetime.now(UTC)


def hold(folder):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    return holder


def lock_of_snakemake(folder):
    lock = folder / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("results/figures/figure.svg\n")
    return lock


def test_the_lock_of_a_killed_call_is_removed_by_the_next_one(tmp_path):
    with hold(tmp_path) as killed:
        lock = lock_of_snakemake(tmp_path)
        killed.kill()
    clear_locks_of_the_dead(tmp_path / ".snakemake")
    assert not lock.exists()


def test_the_lock_of_a_living_call_stays(tmp_path):
    with hold(tmp_path) as living:
        lock = lock_of_snakemake(tmp_path)
        with hold(tmp_path) as second:
            assert lock.exists()
            living.kill()
            living.wait()
            with hold(tmp_path) as third:
                assert lock.exists()  # the second lives
                third.kill()
            second.kill()
