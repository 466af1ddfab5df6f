"""Horovod as it is built here: with both frameworks, over the interface that it is told."""

import os
import subprocess
from typing import Any

import pytest

from tests.support.sandboxes import run_inside

MILLION_FLOATS = 4 << 20  # bytes
MEETINGS = """
import horovod.torch as hvd
import torch

arrays = torch.ones(2, 1 << 19)  # of two megabytes each
for meeting in range(3):
    hvd.init()
    print("meeting", flush=True)
    for step in range(20):
        for handle in [hvd.allreduce_async(array, name=f"array{place}") for place, array in enumerate(arrays)]:
            hvd.synchronize(handle)
    hvd.shutdown()
"""


@pytest.mark.parametrize("framework", ["horovod_torch", "horovod_tensorflow"])
def test_horovods_ranks_meet_on_the_interface_that_they_are_told(
    framework: str, horovod_environment: dict[str, Any], tmp_path
):
    """Without the patch its process set of all ranks takes the interface of the host's name."""
    found = run_inside(tmp_path, "horovod_sum", python=horovod_environment["python"], framework=framework)
    assert found["sums"] == [3.0, 3.0]
    assert found["sent_bytes"] > MILLION_FLOATS  # 2 (N-1)/N of it, and what frames add


def test_horovod_adds_up_arrays_together_however_often_it_is_initialised(horovod_environment: dict[str, Any]):
    """Without the patch its buffer has one megabyte from the second time on, if its cycle is not the default."""
    answer = subprocess.run(
        [horovod_environment["python"], "-c", MEETINGS],
        env=os.environ | {"HOROVOD_CYCLE_TIME": "50", "HOROVOD_LOG_LEVEL": "trace"},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    _, *meetings = answer.stdout.split("meeting\n")
    assert [said.count("Processing 2 tensors") > 0 for said in meetings] == [True, True, True]
