"""All that a worker group on its hosts is made from; the driver writes it, the supervisor and node agents read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ddlbench.environments.materials import BARE
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.launch.container_starter import Contained
from ddlbench.launch.roles import WORKER, Member
from ddlbench.network.fabrics import FABRICS, Fabric
from ddlbench.network.hosts import Placement
from ddlbench.protocol.timeouts import Timeouts


@dataclass(frozen=True, kw_only=True)
class GroupJob:
    """A worker group and its hosts.

    Attributes:
        run: the id of its run; it labels containers.
        worker: what trains, a name of `workers.modules.MODULES`.
        strategy: how gradients are added up, for workers with several strategies.
        devices: `cpu` or `gpu`.
        fabric: what connects the hosts.
        interfaces: which interface belongs to a fabric, where the configuration names one.
        congestion_control: TCP's algorithm on emulated hosts.
        sites: how many the hosts are divided among.
        workers_per_host: how many workers share a network card.
        placement: which share of this machine each host gets.
        members: the processes of the group, by rank.
        runtime: in which the group starts.
        environments: what it runs in, by runtime.
        datasets: files by name and image shape.
        readable: folders that workers in containers read.
        timeouts: of its phases.
        inherited: the driver's environment variables that are read, as of `inherited_variables`.
        logs: the folder for the members' logs.
        facts: of this machine, for the records.
        framework_timeout_s: for frameworks' own waiting (None: a `heartbeat_s` longer than the group waits for a step).
    """

    run: str
    worker: str
    strategy: str = ""
    devices: Literal["cpu", "gpu"] = "cpu"
    fabric: Fabric
    interfaces: Mapping[str, str | None] = field(default_factory=dict)
    congestion_control: str = "cubic"
    sites: int = 1
    workers_per_host: int = 1
    placement: Placement
    members: Sequence[Member]
    runtime: str = BARE
    environments: Mapping[str, RuntimeEnvironment]
    datasets: Mapping[str, str] = field(default_factory=dict)
    readable: Sequence[str] = ()
    timeouts: Timeouts
    inherited: Mapping[str, str]
    logs: str
    facts: Mapping[str, object] = field(default_factory=dict)
    framework_timeout_s: float | None = None

    @property
    def local_workers(self) -> int:
        """How many workers are on each host of workers."""
        return min(self.workers_per_host, sum(member.role == WORKER for member in self.members))

    @property
    def contained(self) -> Contained:
        """What containers of its workers need."""
        return Contained(self.run, self.readable, self.logs, self.devices == "gpu", self.inherited)


def fabric_of(name: str) -> Fabric:
    """Find the fabric with a name.

    Args:
        name: as the configuration has it.

    Returns:
        The name, as a fabric.

    Raises:
        ValueError: there is no such fabric.
    """
    for fabric in FABRICS:
        if fabric == name:
            return fabric
    raise ValueError(f"{name} is no fabric")
