"""What the jobs of one call of Snakemake know of each other, and when measuring afresh was asked for."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from ddlbench.runs.invocation import announce, invocation, stamp, stamped

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


def test_a_stamp_tells_when_it_was_renewed_last(tmp_path):
    path = tmp_path / "results/.fresh"
    stamp(path)
    first = stamped(path)
    stamp(path)
    assert first < stamped(path) <= datetime.now(UTC)
