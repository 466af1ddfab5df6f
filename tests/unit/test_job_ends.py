"""What SLURM says of the jobs of a call."""

from time import sleep

from ddlbench.cluster.job_ends import JobEnds

JOBS = 20_000  # of which squeue prints more than a pipe holds


def test_the_states_of_more_jobs_than_a_pipe_has_room_for_are_read(tmp_path, monkeypatch):
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nseq -f '%g|FAILED' {JOBS}\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    ends = JobEnds(tmp_path / "ends", "a-call")
    last = str(JOBS)
    while not (ended := ends.ended({last: "token"})):
        sleep(0.01)
    assert ended[last].why == f"SLURM's job {last} has ended: FAILED"
