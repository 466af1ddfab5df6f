"""What the files of a job say of the environment variables of the process that has written them."""

import os
from contextlib import suppress

import pytest

from ddlbench.environments.materials import Materials
from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import place
from ddlbench.network.link import Link
from ddlbench.plan import load
from ddlbench.probes.collective_probe import How, probe_collectives
from ddlbench.protocol.codec import written
from ddlbench.protocol.measure import StopRule
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.runs.group_of_run import group_job
from ddlbench.sandbox import job
from tests.support.repository import REPOSITORY

SECRET = "hf_of-nobody-else"
EXACT = Tolerances(rate_percent=0, rtt_percent=0, rtt_ms=0, loss_points=0, others_percent=0, share_percent=0)
LIMITS = Timeouts(launch_s=60, prepare_s=100, step_s=10, heartbeat_s=30)


@pytest.fixture(autouse=True)
def with_a_secret(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setattr(job, "run_sandboxed", lambda *_, **__: 1)


def test_the_job_of_a_run_has_what_its_workers_read_and_no_secret(tmp_path):
    plan = load(REPOSITORY / "config/config.yaml", REPOSITORY)
    run = plan.runs[0]
    hosts = place(4, vcpus=1, memory_gb=1, host_count=4, cores=[0], available_memory_bytes=2**34)
    group = group_job(plan, run, hosts, {"bare": None}, Materials({}, {}), {}, {}, tmp_path)
    assert group.inherited["CUDA_VISIBLE_DEVICES"] == "7"
    assert group.inherited["PATH"] == os.environ["PATH"]
    assert SECRET not in written(group)


def test_the_job_of_a_probe_that_is_kept_in_its_logs_has_no_secret(tmp_path):
    rule = StopRule(min_repetitions=1, max_repetitions=1, interval_percent=1)
    how = How(
        transport="gloo",
        dilation=1,
        rule=rule,
        tolerances=EXACT,
        timeouts=LIMITS,
        python="python",
        logs=tmp_path,
    )
    with suppress(DdlbenchError):
        probe_collectives(Link(1000), hosts=2, sizes_bytes=[4], how=how)
    kept = (tmp_path / "job.json").read_text()
    assert '"CUDA_VISIBLE_DEVICES": "7"' in kept
    assert SECRET not in kept
