"""Who used the cores while a repetition trained, also where its workers are in containers."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.network.hosts import Host
from ddlbench.sweep.core_use import CoreUse


def group_in(runtime: str) -> Any:
    """A group whose only worker is this process."""
    return SimpleNamespace(
        runtime=runtime,
        hosts=SimpleNamespace(hosts=[Host("h1", "10.66.0.1", (0,), 1, 2**30)], star=None),
        members=[SimpleNamespace(host=0)],
        group=SimpleNamespace(pids=lambda: [os.getpid()]),
        fillers=SimpleNamespace(pids=lambda name: []),
    )


@pytest.mark.parametrize("runtime", ["bare", "docker", "apptainer"])
def test_what_members_ran_is_known_in_every_runtime(runtime):
    use = CoreUse(group_in(runtime))
    while not use.since_start()["scheduling"][0]["ran_ms"]:  # the kernel counts at ticks
        pass


def test_what_hosts_got_is_known_where_no_container_has_its_own_turns():
    assert CoreUse(group_in("docker")).since_start().keys() == CoreUse(group_in("bare")).since_start().keys()
    assert CoreUse(group_in("docker")).since_start()["kept"] is None
    assert len(CoreUse(group_in("bare")).since_start()["kept"]) == 1
