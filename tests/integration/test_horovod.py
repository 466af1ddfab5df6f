"""Horovod as it is built here: with both frameworks, over the interface that it is told."""

from typing import Any

import pytest

from tests.support.sandboxes import run_inside

MILLION_FLOATS = 4 << 20  # bytes


@pytest.mark.parametrize("framework", ["horovod_torch", "horovod_tensorflow"])
def test_horovods_ranks_meet_on_the_interface_that_they_are_told(
    framework: str, horovod_environment: dict[str, Any], tmp_path
):
    """Without the patch its process set of all ranks takes the interface of the host's name."""
    found = run_inside(tmp_path, "horovod_sum", python=horovod_environment["python"], framework=framework)
    assert found["sums"] == [3.0, 3.0]
    assert found["sent_bytes"] > MILLION_FLOATS  # 2 (N-1)/N of it, and what frames add
