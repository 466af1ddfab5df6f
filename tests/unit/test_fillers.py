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


class Starter:
    """Starts `sleep` as filler of the first host, and nothing on the second."""

    def __init__(self, stack):
        self.stack = stack
        self.started = []

    def start(self, start, deadline):
        if self.started:
            raise DdlbenchError("no more processes")
        sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        self.started.append(self.stack.enter_context(subprocess.Popen(sleep)))
        self.stack.callback(self.started[-1].kill)  # else a failed test would wait until it has slept enough
        return self.started[-1]


def test_a_filler_that_cannot_be_started_leaves_no_others():
    hosts = [Host(f"h{number}", f"10.0.0.{number}", (0,), 1, 2**30, core_share=0.5) for number in (1, 2)]
    with ExitStack() as stack:
        starter = Starter(stack)
        with pytest.raises(DdlbenchError, match="no more processes"):
            Fillers(starter, hosts, time.monotonic() + 60)
        (started,) = starter.started
        assert not psutil.pid_exists(started.pid)
