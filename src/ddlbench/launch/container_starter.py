"""Containers of workers: one for each emulated host, or one for all hosts that share the loopback.

In each runs a fork server, which forks the host's members; when the fork server ends, its container ends with all
processes in it.

Docker's containers have control groups of their own, between which the kernel divides a core. So each host that shares
its core has a container of its own, on the loopback too, and so has each idle neighbour. Apptainer's are in ours: there
it is sessions that count, or control groups of `shares.core_division`.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ddlbench.containers.apptainer import apptainer_argv, program_environment
from ddlbench.containers.container import Needs, variables_inside
from ddlbench.containers.docker import JoinedNamespaces, client_environment, docker_argv
from ddlbench.containers.podman import OWNER, podman_argv
from ddlbench.containers.unpacked import unpacked_folder
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.launch.fork_starter import ForkServer, namespace_path
from ddlbench.network.hosts import Host
from ddlbench.protocol.fork_messages import Start, StartMember
from ddlbench.sandbox.sandbox import outer_process, outer_user
from ddlbench.system.processes import Orphan

NO_WORKER = "ddlbench.workers.common.filler"  # imported in place of a module of workers, and has no framework


@dataclass(frozen=True)
class Contained:
    """What containers of workers need besides their environment.

    Attributes:
        run: the id of the run; it labels the containers.
        readable: folders that workers read data sets from.
        logs: the folder that they write to.
        gpus: whether they compute on GPUs.
        inherited: the supervisor's environment variables, for the runtime's own program.
    """

    run: str
    readable: Sequence[str]
    logs: str
    gpus: bool
    inherited: Mapping[str, str]


class Containers:
    """Containers, one for each network namespace or host; members start in the one of their host.

    A container that cannot run is reported when its first member is started.

    Args:
        environment: of the runtime `docker` or `apptainer`.
        command: the fork server's argv inside.
        variables: environment variables of all members.
        hosts: of the group.
        namespaces: of the hosts, by descriptor (None: all share ours).
        contained: what the containers need besides.
    """

    def __init__(
        self,
        environment: RuntimeEnvironment,
        command: Sequence[str],
        variables: Mapping[str, str],
        hosts: Sequence[Host],
        namespaces: Sequence[int | None],
        contained: Contained,
    ) -> None:
        self._environment, self._command, self._contained = environment, command, contained
        self._needs = Needs(
            tuple(contained.readable), (contained.logs,), variables_inside(variables), gpus=contained.gpus
        )
        self._memory_bytes = max(host.memory_bytes for host in hosts)
        self._has_control_groups = environment.runtime == "docker"
        by_place: dict[int | str | None, ForkServer] = {}
        self._servers: dict[str, ForkServer] = {}
        self._stack = ExitStack()
        with self._stack as on_error:
            for host, namespace in zip(hosts, namespaces, strict=True):
                place = host.name if self._has_control_groups and host.core_share < 1 else namespace
                if place not in by_place:
                    by_place[place] = self._started(host.name, command, namespace)
                self._servers[host.name] = by_place[place]
            self._stack = on_error.pop_all()

    def _started(self, host: str, command: Sequence[str], namespace: int | None) -> ForkServer:
        """Start a host's container, while the caller continues."""
        argv, of_client = in_container(
            self._environment,
            command,
            self._needs,
            namespace,
            self._memory_bytes,
            run=self._contained.run,
            inherited=self._contained.inherited,
        )
        log = Path(self._contained.logs) / f"fork_server-{host}.log"
        return self._stack.enter_context(ForkServer(argv, of_client, log=log))

    def start(self, start: Start, deadline: float) -> Orphan:
        """Fork a member, a filler or a spinner in its host's container, which is in the host's namespace already.

        Args:
            start: what to start.
            deadline: when it must have been started, by `time.monotonic` in seconds.

        Returns:
            Its process, which this process has adopted.

        Raises:
            DdlbenchError: the container has ended, or its fork server has not answered in time.
        """
        inside = replace(start, namespace=None) if isinstance(start, StartMember) else start
        if start.host not in self._servers:
            self._servers[start.host] = self._of_idle_neighbour(start.host)
        return self._servers[start.host].start(inside, deadline)

    def _of_idle_neighbour(self, host: str) -> ForkServer:
        """What starts the filler of a host that does nothing: a container without a framework, or any that is there."""
        if self._has_control_groups:
            return self._started(host, [*self._command[:-1], NO_WORKER], namespace=None)
        return next(iter(self._servers.values()))

    def close(self) -> None:
        """Do nothing: a container that ended would end its members."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


Started = tuple[list[str], dict[str, str]]


def in_container(
    environment: RuntimeEnvironment,
    command: Sequence[str],
    needs: Needs,
    namespace: int | None,
    memory_bytes: int,
    *,
    run: str,
    inherited: Mapping[str, str],
) -> Started:
    """Write the command that starts a container. Call it in a sandbox.

    Args:
        environment: of the runtime `docker` or `apptainer`.
        command: the argv inside.
        needs: what the container gets of the machine.
        namespace: the network namespace that it joins, by descriptor (None: ours).
        memory_bytes: of shared memory.
        run: labels the container.
        inherited: the supervisor's environment variables.

    Returns:
        The argv of the runtime's program, and its environment variables.
    """
    engine = environment.engine
    assert engine is not None
    if environment.runtime == "docker":
        supervisor = f"/proc/{outer_process()}"
        network = f"{supervisor}/ns/net" if namespace is None else f"{supervisor}/fd/{namespace}"
        user = OWNER if engine.rootless else outer_user()
        joined = JoinedNamespaces(network, f"{supervisor}/ns/pid", user)
        argv_of = podman_argv if engine.name == "podman" else docker_argv
        image = environment.image_id or ""
        argv = argv_of(image, command, needs, joined, run=run, shared_memory_bytes=memory_bytes)
        return argv, client_environment(inherited, engine.address)
    sif = environment.sif or ""
    image = str(unpacked_folder(Path(sif), environment.sif_sha256 or "")) if engine.unpacked else sif
    argv = apptainer_argv(engine.program, image, command, needs, namespace=namespace_path(namespace))
    return argv, program_environment(engine.program, inherited, needs.variables)
