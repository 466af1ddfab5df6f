"""Training on emulated hosts by ddlbench's worker group, for benchmarks."""

import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import psutil

from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.errors import DdlbenchError
from ddlbench.hosts.group_on_hosts import GroupOnHosts, assignments, launched
from ddlbench.launch.bare import workers_argv, workers_environment
from ddlbench.launch.control_socket import unix_socket
from ddlbench.launch.fork_starter import ForkServer
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.group_member import Launch
from ddlbench.launch.roles import members, worker_of
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.network.hosts import Host, Placement, place
from ddlbench.network.star import Star
from ddlbench.protocol.messages import FROM_MEMBER, Hello, ModelShape, Prepared, Shape, TrainingPoint
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.shares.core_division import Division
from ddlbench.shares.fillers import Fillers
from ddlbench.system.namespaces import enter
from ddlbench.system.processes import die_with_parent

DIGITS: Shape = (28, 28, 1)  # height, width, channels
TIMEOUTS = Timeouts(launch_s=120, prepare_s=120, step_s=120, heartbeat_s=60)
NEVER_S = 7 * 86400.0  # a dilated step may take longer than a framework waits by default


def hosts_on(
    cores: Sequence[int], count: int = 2, dilation: float | str = "auto", memory_gb: float = 2
) -> Placement:
    """So many hosts of one vCPU each on `cores`."""
    memory = psutil.virtual_memory().available
    return place(
        count,
        vcpus=1,
        memory_gb=memory_gb,
        host_count=count,
        cores=list(cores),
        available_memory_bytes=memory,
        dilation=dilation,
    )


def two_cores() -> list[int]:
    """Two cores of this machine. Raises DdlbenchError where there is only one."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise DdlbenchError("this benchmark needs two cores")
    return cores


def placement_from(data: Mapping[str, Any]) -> Placement:
    """The placement that `dataclasses.asdict` gave."""
    hosts = tuple(Host(**{**host, "cores": tuple(host["cores"])}) for host in data["hosts"])
    return Placement(**{**data, "hosts": hosts})


def star_of(placement: Placement) -> Star:
    """The emulated hosts of a placement, as a run of ddlbench makes them."""
    addresses = [host.address for host in placement.hosts]
    return Star(addresses, congestion_control="cubic", dilation=placement.dilation)


def become(host: Host, namespace: int) -> Callable[[], None]:
    """What a child does before its program begins, to be a process of the emulated host."""

    def prepare() -> None:
        die_with_parent()
        enter(namespace)
        os.sched_setaffinity(0, host.cores)
        resource.setrlimit(resource.RLIMIT_DATA, (host.memory_bytes, host.memory_bytes))

    return prepare


class Ours:
    """Our worker group, its models made for images of one shape, of one data set."""

    def __init__(
        self,
        group: WorkerGroup,
        fillers: Fillers,
        between: str | None,
        images: str = "digits",
        shape: Shape = DIGITS,
    ) -> None:
        self.group, self.fillers, self.between = group, fillers, between
        self.images, self.shape = images, shape

    def take(self, model: str, batch_size: int, momentum: float = 0.0) -> list[Prepared]:
        """Prepare a model and its batches; returns what each rank says of it."""
        point = TrainingPoint(
            model, self.shape, self.images, batch_size, learning_rate=0.01, momentum=momentum
        )
        return self.group.prepare(point, seed=1)

    def train(self, steps: int, *, from_fresh: bool = False) -> list[float]:
        """The times of `steps` steps that the ranks take together."""
        with self.fillers.running():
            reports = self.group.train(steps, from_fresh=from_fresh)
        return together([times for report in reports for times in report.step_times_ms])

    def step_times_ms(self, model: str, batch_size: int, steps: int) -> list[float]:
        """One repetition, as a run measures it: a step to warm up, then `steps`."""
        self.take(model, batch_size)
        self.train(1)
        return self.train(steps, from_fresh=True)


@contextmanager
def ours(
    star: Star,
    placement: Placement,
    *,
    python: str,
    dataset: str,
    models: Sequence[str],
    framework: str = "torch",
    strategy: str = "ring_allreduce",
    servers: int = 0,
    images: str = "digits",
    shape: Shape = DIGITS,
) -> Iterator[Ours]:
    """Launch our worker group on the hosts of `star`, a worker on each; `dataset` is the file of `images`.

    servers: how many of the hosts, the last ones, have a server and no worker; else it shares the last worker's.
    """
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        control = Path(folder) / "control"
        hosts = placement.hosts
        group_of_all = members(framework, strategy, len(hosts) - servers, len(hosts))
        launches = [
            Launch(
                hosts[member.host],
                star.namespaces[member.host],
                Path(folder) / f"rank{rank}.log",
                member.role,
            )
            for rank, member in enumerate(group_of_all)
        ]
        worker = worker_of(framework, strategy)
        job = GroupJob(
            run="benchmark",
            worker=worker,
            strategy=strategy,
            fabric="emulated",
            placement=placement,
            members=group_of_all,
            environments={},
            datasets={f"{images}-{'x'.join(map(str, shape))}": dataset},
            timeouts=TIMEOUTS,
            inherited=dict(os.environ),
            logs=folder,
        )
        environment = workers_environment(os.environ, threads=hosts[0].threads, interface="eth0")
        deadline, groups = monotonic() + TIMEOUTS.launch_s, ExitStack()
        division = Division(groups, contained=False)
        with (
            groups,
            ForkServer(workers_argv(python, worker), environment, log=Path(folder) / "log") as server,
            division.starter(server, hosts, deadline) as dividing,
            WorkerGroup(
                dividing,
                launches,
                assignments(job, hosts, [host.address for host in hosts]),
                control=unix_socket(control, greetings=(Hello,), kinds=FROM_MEMBER),
                timeouts=TIMEOUTS,
                check=star.backend.check,
            ) as group,
            Fillers(dividing, hosts, deadline) as fillers,
        ):
            group.connect([ModelShape(model, shape) for model in models])
            yield Ours(group, fillers, division.between, images, shape)


@contextmanager
def group_of(
    placement: Placement,
    framework: str,
    strategy: str,
    workers: int,
    python: str,
    *,
    replayed: bool,
    datasets: Mapping[str, str] | None = None,
) -> Iterator[GroupOnHosts]:
    """A worker group on emulated hosts; a server has a host of its own if there is one more."""
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        job = GroupJob(
            run="benchmark",
            worker=worker_of(framework, strategy, replayed=replayed),
            strategy=strategy,
            fabric="emulated",
            placement=placement,
            members=members(framework, strategy, workers, len(placement.hosts)),
            environments={"bare": RuntimeEnvironment(python)},
            datasets=datasets or {},
            timeouts=TIMEOUTS,
            inherited=dict(os.environ),
            logs=folder,
            framework_timeout_s=NEVER_S if replayed else None,
        )
        with launched(job) as group:
            yield group


def together(ranks: Sequence[Sequence[float]]) -> list[float]:
    """Of each step, how much later the last rank had done it than the last rank had done the one before."""
    done = [max(each) for each in zip(*map(accumulate, ranks), strict=True)]
    return [later - earlier for earlier, later in pairwise([0.0, *done])]


def steps_for(seconds: float, step_times_ms: Sequence[float]) -> int:
    """How many steps fit into `seconds`, at least 3."""
    return max(3, int(seconds * 1000 / mean(step_times_ms)))
