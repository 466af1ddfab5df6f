"""Two ways to train on emulated hosts: ddlbench's worker group, and a plain script of the framework."""

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import monotonic
from types import TracebackType
from typing import Any, Self

import psutil

from benchmarks.common import ROOT
from ddlbench.errors import DdlbenchError
from ddlbench.hosts.group_on_hosts import assignments
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
from ddlbench.shares.division import Division
from ddlbench.shares.fillers import Fillers
from ddlbench.system.namespaces import enter
from ddlbench.system.processes import die_with_parent

DIGITS: Shape = (28, 28, 1)  # height, width, channels
TIMEOUTS = Timeouts(launch_s=120, prepare_s=120, step_s=120, heartbeat_s=60)
_STOP_S = 120.0
_ABORTED = "(SIGABRT)"


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


@dataclass(frozen=True)
class Process:
    """A process of a plain script: the number of its host, its command, its variables, and whether it trains."""

    host: int
    argv: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    trains: bool = True


class Plain:
    """A plain script that trains on the hosts, told the numbers of steps, its processes started by themselves."""

    def __init__(self, star: Star, placement: Placement, processes: Sequence[Process]) -> None:
        self._folder = TemporaryDirectory(prefix="ddlbench-")
        self._agents = []
        self._training = [rank for rank, process in enumerate(processes) if process.trains]
        for rank, process in enumerate(processes):
            host = placement.hosts[process.host]
            environment = workers_environment(os.environ, threads=host.threads, interface="eth0")
            with self._log(rank).open("wb") as log:
                self._agents.append(
                    subprocess.Popen(
                        process.argv,
                        env=environment | process.variables,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                        preexec_fn=become(host, star.namespaces[process.host]),
                        start_new_session=True,
                    )
                )

    def step_times_ms(self, steps: int) -> list[float]:
        """Train `steps` steps; the times that the ranks took for them together."""
        for rank in self._training:
            stdin = self._agents[rank].stdin
            assert stdin is not None
            stdin.write(f"{steps}\n")
            stdin.flush()
        return together([self._answer(rank) for rank in self._training])

    def give_up(self) -> None:
        """Wait until the processes have noticed by themselves that the script has failed, and have ended."""
        for agent in self._agents:
            agent.wait(_STOP_S)
        self._agents.clear()

    def finish(self) -> None:
        """Let the script's processes end by themselves; raises DdlbenchError where they fail.

        That Gloo aborts a rank which has done its work and exits is a failure of PyTorch's that does not count.
        """
        for agent in self._agents:
            assert agent.stdin is not None
            agent.stdin.close()
        for rank, agent in enumerate(self._agents):
            status = agent.wait(_STOP_S)
            if status and _ABORTED not in self._log(rank).read_text(errors="replace"):
                raise DdlbenchError(
                    f"process {rank} of the plain script ended with status {status}\n{self._tail(rank)}"
                )

    def _answer(self, rank: int) -> list[float]:
        stdout = self._agents[rank].stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise DdlbenchError(f"process {rank} of the plain script died\n{self._tail(rank)}")
        times: list[float] = json.loads(line)
        return times

    def _log(self, rank: int) -> Path:
        return Path(self._folder.name) / f"agent{rank}.log"

    def _tail(self, rank: int) -> str:
        return "\n".join(self._log(rank).read_text(errors="replace").splitlines()[-12:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.finish()
        finally:
            for agent in self._agents:
                agent.kill()
                agent.wait()
            self._folder.cleanup()


def torchrun(python: str, addresses: Sequence[str], port: int, script: Sequence[str]) -> list[Process]:
    """plain_ddp.py under torchrun: one agent a host, the rendezvous on the first one's address."""
    common = [python, "-m", "torch.distributed.run", f"--nnodes={len(addresses)}", "--nproc-per-node=1"]
    common += [f"--master-addr={addresses[0]}", f"--master-port={port}"]
    plain = [str(ROOT / "benchmarks" / "plain_ddp.py"), *script]
    return [Process(rank, [*common, f"--node-rank={rank}", *plain]) for rank in range(len(addresses))]


def dmlc(python: str, addresses: Sequence[str], port: int, script: Sequence[str]) -> list[Process]:
    """plain_mxnet.py as MXNet's launchers start it: a worker a host, scheduler and server on the last one, as ours."""
    argv = [python, str(ROOT / "benchmarks" / "plain_mxnet.py"), *script]
    common = {"DMLC_PS_ROOT_URI": addresses[-1], "DMLC_PS_ROOT_PORT": str(port)}
    common |= {"DMLC_NUM_WORKER": str(len(addresses)), "DMLC_NUM_SERVER": "1"}
    last = len(addresses) - 1
    return [
        *(
            Process(rank, argv, common | {"DMLC_ROLE": "worker", "RANK": str(rank)})
            for rank in range(len(addresses))
        ),
        *(
            Process(last, argv, common | {"DMLC_ROLE": role}, trains=False)
            for role in ("scheduler", "server")
        ),
    ]


def rpc(python: str, addresses: Sequence[str], port: int, script: Sequence[str]) -> list[Process]:
    """plain_parameter_server.py: a trainer a host, and the server on the last one, as ours."""
    argv = [python, str(ROOT / "benchmarks" / "plain_parameter_server.py"), *script]
    common = {"MASTER_ADDR": addresses[-1], "MASTER_PORT": str(port), "WORLD_SIZE": str(len(addresses) + 1)}
    last = len(addresses) - 1
    return [
        *(Process(host, argv, common | {"RANK": str(host + 1)}) for host in range(len(addresses))),
        Process(last, argv, common | {"RANK": "0"}, trains=False),
    ]


def tf_config(python: str, addresses: Sequence[str], port: int, script: Sequence[str]) -> list[Process]:
    """plain_tensorflow.py: one process a host, which finds the others by itself."""
    argv = [python, str(ROOT / "benchmarks" / "plain_tensorflow.py"), *script]
    cluster = {"worker": [f"{address}:{port}" for address in addresses]}
    return [
        Process(rank, argv, {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})})
        for rank, task in enumerate({"type": "worker", "index": rank} for rank in range(len(addresses)))
    ]


def horovodrun(
    plain: str, python: str, addresses: Sequence[str], port: int, script: Sequence[str]
) -> list[Process]:
    """A script as horovodrun starts it: a worker a host, the store in which they find each other on the first one."""
    folder = ROOT / "benchmarks"
    size = str(len(addresses))
    common = {"HOROVOD_GLOO_RENDEZVOUS_ADDR": addresses[0], "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port)}
    common |= {"HOROVOD_SIZE": size, "HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1"}
    return [
        *(
            Process(
                rank,
                [python, str(folder / plain), *script],
                common
                | {"HOROVOD_RANK": str(rank), "HOROVOD_CROSS_RANK": str(rank), "HOROVOD_CROSS_SIZE": size}
                | {"HOROVOD_HOSTNAME": f"h{rank}"},
            )
            for rank in range(len(addresses))
        ),
        Process(0, [python, str(folder / "horovod_store.py"), addresses[0], str(port)], trains=False),
    ]


PLAIN: Mapping[str, Callable[..., list[Process]]] = {
    "torch": torchrun,
    "torch_parameter_server": rpc,
    "tensorflow": tf_config,
    "mxnet": dmlc,
    "horovod_torch": partial(horovodrun, "plain_horovod_torch.py"),
    "horovod_tensorflow": partial(horovodrun, "plain_horovod_tensorflow.py"),
}


def plain(
    system: str,
    star: Star,
    placement: Placement,
    *,
    python: str,
    model: str,
    dataset: str,
    batch_size: int,
    port: int,
) -> Plain:
    """Start the plain script of one of PLAIN, one worker a host."""
    addresses = [host.address for host in placement.hosts]
    return Plain(star, placement, PLAIN[system](python, addresses, port, [model, dataset, str(batch_size)]))


def together(ranks: Sequence[Sequence[float]]) -> list[float]:
    """Of each step, how much later the last rank had done it than the last rank had done the one before."""
    done = [max(each) for each in zip(*map(accumulate, ranks), strict=True)]
    return [later - earlier for earlier, later in pairwise([0.0, *done])]


def steps_for(seconds: float, step_times_ms: Sequence[float]) -> int:
    """How many steps fit into `seconds`, at least 3."""
    return max(3, int(seconds * 1000 / mean(step_times_ms)))
