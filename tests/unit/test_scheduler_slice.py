"""How long a thread keeps its core: asked of the kernel, in a process of its own."""

import json
import platform
import subprocess
import sys

import pytest

from ddlbench.workers.common.scheduler_slice import slice_ms

HAS_SLICES = tuple(map(int, platform.release().split(".")[:2])) >= (6, 12)

PROGRAM = """
import json, threading
from ddlbench.workers.common.scheduler_slice import shorten_slice, slice_ms
shorten_slice()
slices_ms = [slice_ms()]
thread = threading.Thread(target=lambda: slices_ms.append(slice_ms()))
thread.start()
thread.join()
print(json.dumps(slices_ms))
"""


@pytest.mark.unit
def test_the_kernel_tells_its_slice_since_it_has_one_for_each_thread():
    assert (slice_ms() is not None) == HAS_SLICES


@pytest.mark.unit
def test_the_shortest_slice_is_a_threads_own_and_that_of_threads_that_it_starts_then():
    told = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert told.stderr == ""
    assert json.loads(told.stdout) == ([0.1, 0.1] if HAS_SLICES else [None, None])
