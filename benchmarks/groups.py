"""Two ways to train on emulated hosts: ddlbench's worker group, and a plain script under torchrun."""

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import psutil

from benchmarks.common import ROOT
from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import Host, Placement, place
from ddlbench.network.namespaces import enter
from ddlbench.network.star import Star
from ddlbench.runtime.bare import workers_argv, workers_environment
from ddlbench.runtime.fork_server import ForkServer
from ddlbench.runtime.group import Launch, Timeouts, WorkerGroup
from ddlbench.runtime.processes import die_with_parent

TIMEOUTS = Timeouts(launch_s=120, prepare_s=120, step_s=120, heartbeat_s=60)
_STOP_S = 120.0
_ABORTED = "(SIGABRT)"
_PORT = 29500


def pair(cores: Sequence[int], dilation: float | str = "auto") -> Placement:
    """Two hosts of one vCPU each on `cores`."""
    memory = psutil.virtual_memory().available
    return place(
        2,
        vcpus=1,
        memory_gb=2,
        host_count=2,
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
    """Our worker group, its models made."""

    def __init__(self, group: WorkerGroup) -> None:
        self.group = group

    def step_times_ms(self, model: str, batch_size: int, steps: int) -> list[float]:
        """One repetition, as a run measures it: a step to warm up, then `steps`; each as long as its slowest rank."""
        point = {
            "model": model,
            "batch_size": batch_size,
            "dataset": "digits",
            "image_shape": [28, 28, 1],
            "learning_rate": 0.01,
            "momentum": 0.0,
        }
        self.group.prepare(point, seed=1)
        self.group.train(1)
        reports = self.group.train(steps, from_fresh=True)
        return _slowest([report["step_times_ms"] for report in reports])


@contextmanager
def ours(
    star: Star, placement: Placement, *, python: str, dataset: str, models: Sequence[str]
) -> Iterator[Ours]:
    """Launch our worker group on the hosts of `star`; `dataset` is the file of digits."""
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        control = Path(folder) / "control"
        hosts = placement.hosts
        launches = [
            Launch(host, star.namespaces[rank], Path(folder) / f"rank{rank}.log")
            for rank, host in enumerate(hosts)
        ]
        jobs = [
            {
                "rank": rank,
                "world_size": len(hosts),
                "threads": host.threads,
                "core_share": host.core_share,
                "devices": "cpu",
                "rendezvous": f"{hosts[0].address}:{_PORT}",
                "timeout_s": 240,
                "datasets": {"digits-28x28x1": dataset},
            }
            for rank, host in enumerate(hosts)
        ]
        environment = workers_environment(os.environ, threads=hosts[0].threads, interface="eth0")
        with (
            ForkServer(workers_argv(python, "torch"), environment, log=Path(folder) / "log") as server,
            WorkerGroup(
                server, launches, jobs, control=control, timeouts=TIMEOUTS, check=star.backend.check
            ) as group,
        ):
            group.connect([(model, [28, 28, 1]) for model in models])
            yield Ours(group)


class Torchrun:
    """plain_ddp.py under torchrun: one agent an emulated host, the rendezvous on the first one's address."""

    def __init__(
        self,
        star: Star,
        placement: Placement,
        *,
        python: str,
        model: str,
        dataset: str,
        batch_size: int,
        port: int,
    ) -> None:
        hosts = placement.hosts
        self._folder = TemporaryDirectory(prefix="ddlbench-")
        self._agents = []
        for rank, host in enumerate(hosts):
            argv = [python, "-m", "torch.distributed.run", f"--nnodes={len(hosts)}", "--nproc-per-node=1"]
            argv += [
                f"--node-rank={rank}",
                f"--master-addr={hosts[0].address}",
                f"--master-port={port}",
            ]
            argv += [str(ROOT / "benchmarks" / "plain_ddp.py"), model, dataset, str(batch_size)]
            with self._log(rank).open("wb") as log:
                self._agents.append(
                    subprocess.Popen(
                        argv,
                        env=workers_environment(os.environ, threads=host.threads, interface="eth0"),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                        preexec_fn=become(host, star.namespaces[rank]),
                        start_new_session=True,
                    )
                )

    def step_times_ms(self, steps: int) -> list[float]:
        """Train `steps` steps; each took as long as its slowest rank."""
        for agent in self._agents:
            assert agent.stdin is not None
            agent.stdin.write(f"{steps}\n")
            agent.stdin.flush()
        return _slowest([self._answer(rank) for rank in range(len(self._agents))])

    def give_up(self) -> None:
        """Wait until torchrun has noticed by itself that the script has failed, and has ended."""
        for agent in self._agents:
            agent.wait(_STOP_S)
        self._agents.clear()

    def finish(self) -> None:
        """Let the script and torchrun end by themselves; raises DdlbenchError where they fail.

        That Gloo aborts a rank which has done its work and exits is a failure of PyTorch's that does not count.
        """
        for agent in self._agents:
            assert agent.stdin is not None
            agent.stdin.close()
        for rank, agent in enumerate(self._agents):
            status = agent.wait(_STOP_S)
            if status and _ABORTED not in self._log(rank).read_text(errors="replace"):
                raise DdlbenchError(f"torchrun's agent {rank} ended with status {status}\n{self._tail(rank)}")

    def _answer(self, rank: int) -> list[float]:
        stdout = self._agents[rank].stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise DdlbenchError(f"torchrun's agent {rank} died\n{self._tail(rank)}")
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


def _slowest(ranks: Sequence[Sequence[float]]) -> list[float]:
    return [max(times) for times in zip(*ranks, strict=True)]


def steps_for(seconds: float, step_times_ms: Sequence[float]) -> int:
    """How many steps fit into `seconds`, at least 3."""
    return max(3, int(seconds * 1000 / mean(step_times_ms)))
