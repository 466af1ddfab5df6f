"""How fast a host's vCPUs are: measured with real threads, once, and told by each record."""

import copy
import os

import pytest

from ddlbench.runs.vcpus import FOLDER
from ddlbench.shares.amdahl import thread_counts
from tests.support.tiny_study import TINY_STUDY

VCPUS = 4


@pytest.mark.needs("sandboxes")
@pytest.mark.long
def test_the_speed_up_of_threads_is_measured_once_and_stands_in_each_record(prepared):
    study = copy.deepcopy(TINY_STUDY)
    study["hosts"]["pair"]["vcpus"] = VCPUS
    prepared.configure(study=study)
    assert "timing steps with" in prepared.run(prepared.manifest("bandwidth"))
    (file,) = (prepared.root / "results" / FOLDER).iterdir()
    measured = file.read_bytes()

    assert "timing steps with" not in prepared.run(prepared.manifest("latency"))
    assert file.read_bytes() == measured
    speeds = [record["vcpu_speed"] for record in prepared.records()]
    assert len(speeds) == 8
    for speed in speeds:
        assert speed == speeds[0]
    assert speeds[0]["threads"] == thread_counts(len(os.sched_getaffinity(0)), VCPUS)
    assert 1 <= speeds[0]["low"] <= speeds[0]["speedup"] <= speeds[0]["high"] <= VCPUS
    for record in prepared.records():
        assert record["dilation"] == pytest.approx(record["planned_dilation"] * speeds[0]["speedup"] / VCPUS)
