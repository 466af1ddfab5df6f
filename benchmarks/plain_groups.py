"""Training on emulated hosts by a plain script of the framework, started as its users start it."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from benchmarks.common import ROOT
from benchmarks.groups import become, together
from ddlbench.errors import DdlbenchError
from ddlbench.launch.bare import workers_environment
from ddlbench.network.hosts import Placement
from ddlbench.network.star import Star

_STOP_S = 120.0
_ABORTED = "(SIGABRT)"


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
                        env={**environment, **process.variables},
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
