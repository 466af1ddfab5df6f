"""Which container each host's processes start in: shares of a core are divided between Docker's containers."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from ddlbench.environments.runtime_environment import Engine, RuntimeEnvironment
from ddlbench.launch import container_starter
from ddlbench.launch.container_starter import Contained, Containers
from ddlbench.network.hosts import Host
from ddlbench.protocol.fork_messages import StartFiller

WORKER = "ddlbench.workers.torch.ring_allreduce"
COMMAND = ["python", "-m", "ddlbench.workers.common.fork_server", WORKER]


class ForkServer(nullcontext[None]):
    """Starts nothing; says which module its container imports, and what was to be started in it."""

    def __init__(self, argv: Sequence[str], *_: Any, **__: Any) -> None:
        super().__init__()
        self.module = argv[-1]
        self.hosts: list[str] = []
        made.append(self)

    def __enter__(self) -> Any:
        return self

    def start(self, start: StartFiller, deadline: float) -> None:
        self.hosts.append(start.host)


made: list[ForkServer] = []


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr(container_starter, "ForkServer", ForkServer)
    monkeypatch.setattr(container_starter, "outer_user", lambda: (1000, 1000))


def filled(runtime: str, core_share: float, namespaces: Sequence[int | None], neighbours: int) -> Any:
    """What each container imports, and whose fillers start in it: of two hosts and of idle neighbours."""
    hosts = [Host(name, "10.66.0.1", (0,), 1, 2**30, core_share) for name in ("h1", "h2")]
    environment = RuntimeEnvironment("python", runtime=runtime, sif="torch.sif", engine=Engine(runtime, "1"))
    contained = Contained("a-run", (), "/logs", gpus=False, inherited={})
    with Containers(environment, COMMAND, {}, hosts, namespaces, contained) as containers:
        for name in ["h1", "h2", *(f"idle{number}-core0" for number in range(neighbours))]:
            containers.start(StartFiller(host=name, core=0), time.monotonic() + 60)
    return [(each.module, each.hosts) for each in made]


@pytest.mark.parametrize("namespaces", [(None, None), (8, 9)])
def test_in_docker_each_host_that_shares_its_core_has_a_container_and_so_has_an_idle_neighbour(namespaces):
    assert filled("docker", 0.25, namespaces, neighbours=2) == [
        (WORKER, ["h1"]),
        (WORKER, ["h2"]),
        (container_starter.NO_WORKER, ["idle0-core0"]),
        (container_starter.NO_WORKER, ["idle1-core0"]),
    ]


def test_on_the_loopback_hosts_with_cores_of_their_own_have_one_container():
    assert filled("docker", 1, (None, None), neighbours=0) == [(WORKER, ["h1", "h2"])]


def test_apptainer_s_containers_are_no_shares_and_idle_neighbours_need_none():
    assert filled("apptainer", 0.25, (None, None), neighbours=1) == [(WORKER, ["h1", "h2", "idle0-core0"])]
    made.clear()
    of_two = filled("apptainer", 0.25, (8, 9), neighbours=1)
    assert [hosts for _, hosts in of_two] == [["h1", "idle0-core0"], ["h2"]]
