"""Containers of workers: one for each emulated host, or one for all that share the loopback.

In each runs a fork server, from which the host's members are forked; a container ends with its fork server, and all
that is in it too.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ddlbench.containers.apptainer import apptainer_argv, program_environment
from ddlbench.containers.container import Needs, variables_inside
from ddlbench.containers.docker import Joined, client_environment, docker_argv
from ddlbench.containers.podman import OWNER, podman_argv
from ddlbench.containers.unpacked import tree_of
from ddlbench.launch.fork_starter import ForkServer, namespace_path
from ddlbench.network.hosts import Host
from ddlbench.sandbox.sandbox import outer_process, outer_user
from ddlbench.system.processes import Orphan

Job = Mapping[str, Any]


class Containers:
    """Start one container a namespace, with the fork server `command` in it; members are started by their host's name.

    namespaces: of the hosts, by descriptor (None: all share ours). Raises DdlbenchError where the runtime's program is
    missing; what else goes wrong is told when the first member is started.
    """

    def __init__(
        self,
        job: Job,
        runtime: str,
        command: Sequence[str],
        variables: Mapping[str, str],
        hosts: Sequence[Host],
        namespaces: Sequence[int | None],
    ) -> None:
        logs = Path(job["logs"])
        needs = Needs(
            tuple(job["readable"]),
            (str(logs),),
            variables_inside(variables),
            gpus=job["devices"] == "gpu",
        )
        memory_bytes = max(host.memory_bytes for host in hosts)
        by_namespace: dict[int | None, ForkServer] = {}
        self._servers: dict[str, ForkServer] = {}
        with ExitStack() as stack:
            for host, namespace in zip(hosts, namespaces, strict=True):
                if namespace not in by_namespace:
                    argv, environment = contained(job, runtime, command, needs, namespace, memory_bytes)
                    log = logs / f"fork_server-{host.name}.log"
                    by_namespace[namespace] = stack.enter_context(ForkServer(argv, environment, log=log))
                self._servers[host.name] = by_namespace[namespace]
            self._stack = stack.pop_all()

    def start(self, order: Mapping[str, Any], deadline: float) -> Orphan:
        """Have a member forked in its host's container, which is in the host's namespace already."""
        return self._servers[order["host"]].start({**order, "namespace": None}, deadline)

    def close(self) -> None:
        """Nothing: a container that ended would end its members."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


Started = tuple[list[str], dict[str, str]]


def contained(
    job: Job, runtime: str, command: Sequence[str], needs: Needs, namespace: int | None, memory_bytes: int
) -> Started:
    """The argv and the variables that start `command` in a container, in this network namespace (None: ours).

    job: environments (a description each runtime), inherited (variables), run (its id). Call it in a sandbox.
    """
    described = job["environments"][runtime]
    if runtime == "docker":
        supervisor = f"/proc/{outer_process()}"
        network = f"{supervisor}/ns/net" if namespace is None else f"{supervisor}/fd/{namespace}"
        engine = described["engine"]
        user = OWNER if engine["rootless"] else outer_user()
        joined = Joined(network, f"{supervisor}/ns/pid", user)
        argv_of = podman_argv if engine["name"] == "podman" else docker_argv
        image = described["image_id"]
        argv = argv_of(image, command, needs, joined, run=job["run"], shared_memory_bytes=memory_bytes)
        return argv, client_environment(job["inherited"], engine["address"])
    program = described["engine"]["program"]
    image = str(tree_of(described)) if described["engine"]["unpacked"] else described["sif"]
    argv = apptainer_argv(program, image, command, needs, namespace=namespace_path(namespace))
    return argv, program_environment(program, job["inherited"], needs.variables)
