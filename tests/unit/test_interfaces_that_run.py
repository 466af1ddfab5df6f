"""Whether a network interface runs, as the kernel says."""

import pytest

from ddlbench.system.calls import interface_runs
from ddlbench.workers.common.listener import await_running


def test_the_loopback_runs_and_is_not_waited_for():
    assert interface_runs("lo")  # as other tests connect to it
    await_running("lo", timeout_s=3600)


def test_an_interface_that_is_not_there_is_no_interface_that_does_not_run():
    with pytest.raises(OSError, match="No such device"):
        interface_runs("nowhere")
