"""The fillers of hosts that share a core: what is left of them where one of them cannot be started."""

import subprocess
import sys
import time
from contextlib import ExitStack

import psutil
import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import Host
from ddlbench.shares.fillers import Fillers
from tests.support.remains import eventually


class Starter:
    """Starts `sleep` as filler, so many times."""

    def __init__(self, stack, most):
        self.stack = stack
        self.most = most
        self.started = []

    def start(self, start, deadline):
        if len(self.started) == self.most:
            raise DdlbenchError("no more processes")
        sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        self.started.append(self.stack.enter_context(subprocess.Popen(sleep)))
        self.stack.callback(self.started[-1].kill)  # else a failed test would wait until it has slept enough
        return self.started[-1]


def test_a_filler_that_cannot_be_started_leaves_no_others():
    hosts = [Host(f"h{number}", f"10.0.0.{number}", (0,), 1, 2**30, core_share=0.5) for number in (1, 2)]
    with ExitStack() as stack:
        starter = Starter(stack, most=1)
        with pytest.raises(DdlbenchError, match="no more processes"):
            Fillers(starter, hosts, time.monotonic() + 60)
        (started,) = starter.started
        assert not psutil.pid_exists(started.pid)


def test_fillers_run_for_as_long_as_they_are_wanted_though_the_caller_waits_on():
    host = Host("h1", "10.0.0.1", (0,), 1, 2**30, core_share=0.5)
    with ExitStack() as stack:
        starter = Starter(stack, most=2)
        fillers = stack.enter_context(Fillers(starter, [host], time.monotonic() + 60))

        def stopped():
            return [psutil.Process(each.pid).status() == psutil.STATUS_STOPPED for each in starter.started]

        with fillers.running():
            assert eventually(lambda: stopped() == [False, False])
        assert eventually(lambda: stopped() == [True, True])
        with fillers.running(at_most_s=0):
            assert eventually(lambda: stopped() == [True, True])
