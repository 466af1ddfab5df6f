"""From when the start of a worker group counts: from its first process, which not always begins before the hosts."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.hosts import group_on_hosts
from ddlbench.hosts.group_on_hosts import GroupOnHosts


@pytest.mark.parametrize(
    ("runtime", "fabric", "began"),
    [
        ("bare", "emulated", "before the hosts"),  # what imports the framework meanwhile
        ("docker", "emulated", "with the hosts"),
        ("apptainer", "loopback", "with the hosts"),
        ("apptainer", "ethernet", "before the hosts"),  # each node's agent opens a container at once
    ],
)
def test_making_the_network_is_no_part_of_the_start_of_containers(runtime, fabric, began, monkeypatch):
    now = ["before the hosts"]
    of_nothing = SimpleNamespace(hosts=(), addresses=(), ports=())

    def made(job, stack):
        now[0] = "with the hosts"
        return of_nothing

    monkeypatch.setattr(group_on_hosts, "monotonic", lambda: now[0])
    monkeypatch.setattr(group_on_hosts, "hosts_of", made)
    monkeypatch.setattr(group_on_hosts, "assignments", lambda *of: [])
    monkeypatch.setattr(GroupOnHosts, "_group", lambda self: (None, None))
    job: Any = SimpleNamespace(
        members=(),
        placement=SimpleNamespace(gpus=()),
        runtime=runtime,
        fabric=fabric,
        timeouts=SimpleNamespace(step_s=1.0),
    )
    with ExitStack() as stack:
        assert GroupOnHosts(job, stack)._began_s == began
