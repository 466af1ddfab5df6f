"""What the jobs of one call of Snakemake know of each other, and when measuring afresh was asked for."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from ddlbench.runs.invocation import announce, invocation, settle, stamp, stamp_of, stamped

ANNOUNCE = "from ddlbench.runs.invocation import *; announce('invocation.json', ['b', 'a'])"
JOB = "from ddlbench.runs.invocation import *; print(invocation(Path('invocation.json'), {run!r}).runs)"
CALL = "import subprocess, sys; {announce}; subprocess.run([sys.executable, '-c', sys.argv[1]])"


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


def test_measuring_afresh_that_was_cut_short_goes_on_and_begins_anew_once_its_result_is_made(tmp_path):
    result = tmp_path / "runs/one.json"
    assert stamped(result, tmp_path) is None
    stamp([result], tmp_path)
    first = stamped(result, tmp_path)
    settle([result], tmp_path)
    stamp([result], tmp_path)
    assert stamped(result, tmp_path) == first

    result.parent.mkdir()
    result.touch()
    settle([result], tmp_path)
    assert stamped(result, tmp_path) is None
    stamp([result], tmp_path)
    assert first < stamped(result, tmp_path) <= datetime.now(UTC)


def test_a_result_of_before_is_still_to_be_measured_afresh(tmp_path):
    result = tmp_path / "one.json"
    result.touch()
    stamp([result], tmp_path)
    os.utime(result, (0, 0))
    settle([result], tmp_path)
    assert stamp_of(result, tmp_path).exists()


def test_measuring_one_result_afresh_leaves_the_others(tmp_path):
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    stamp([one], tmp_path)
    assert stamped(one, tmp_path) is not None
    assert stamped(other, tmp_path) is None
