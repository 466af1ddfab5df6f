"""How long a thread keeps its core: asked of the kernel, in a process of its own."""

import json
import platform
import subprocess
import sys
import time

import pytest

from ddlbench.workers.common.scheduler_slice import slice_ms

HAS_SLICES = tuple(map(int, platform.release().split(".")[:2])) >= (6, 12)
TICK_MS = time.clock_getres(6) * 1e3  # of CLOCK_MONOTONIC_COARSE

PROGRAM = """
import json, sys, threading
from ddlbench.workers.common.scheduler_slice import dilate_slice, slice_ms
slices_ms = [slice_ms()]
dilate_slice(float(sys.argv[1]))
slices_ms.append(slice_ms())
thread = threading.Thread(target=lambda: slices_ms.append(slice_ms()))
thread.start()
thread.join()
print(json.dumps(slices_ms))
"""


def slices_of(dilation: float) -> list[float | None]:
    """Of a process before it dilates its slice and after, and of a thread that it starts then."""
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(dilation)], check=True, capture_output=True, text=True
    )
    assert told.stderr == ""
    slices: list[float | None] = json.loads(told.stdout)
    return slices


@pytest.mark.unit
def test_the_kernel_tells_its_slice_since_it_has_one_for_each_thread():
    assert (slice_ms() is not None) == HAS_SLICES


@pytest.mark.unit
@pytest.mark.parametrize("dilation", [2.0, 4.0])
def test_a_threads_slice_makes_up_for_the_tick_and_so_do_those_of_threads_that_it_starts(dilation):
    before, after, of_thread = slices_of(dilation)
    assert after == (pytest.approx(dilation * (before + TICK_MS) + TICK_MS / 2) if HAS_SLICES else None)
    assert of_thread == after


@pytest.mark.unit
def test_the_kernels_longest_slice_is_the_longest_dilated_one():
    assert slices_of(1000.0)[1:] == ([100.0, 100.0] if HAS_SLICES else [None, None])
