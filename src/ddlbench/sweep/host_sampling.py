"""Which processes of each host are sampled while a session measures, and how."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from ddlbench.hosts.group_on_hosts import GroupOnHosts
from ddlbench.plan import Point
from ddlbench.protocol.agent_messages import Sampling
from ddlbench.sweep.session_job import SessionJob
from ddlbench.system.clock import Clock
from ddlbench.telemetry.telemetry import RunTelemetry, Watched


class HostSampling:
    """Samples the hosts of a session's worker group, one group after another.

    Args:
        job: the session's.
        group: on its hosts.
        clock: of the session.
        stack: ends the sampling.

    Attributes:
        telemetry: of the present group; None: it is not sampled.
    """

    def __init__(self, job: SessionJob, group: GroupOnHosts, clock: Clock, stack: ExitStack) -> None:
        self._job, self._group, self._clock = job, group, clock
        self._of_group = stack.enter_context(ExitStack())
        self.telemetry: RunTelemetry | None = None

    @property
    def costs(self) -> Mapping[str, object] | None:
        """What sampling the last group has cost, once that has ended; None: it was not sampled."""
        return self.telemetry.costs if self.telemetry else None

    def end(self) -> None:
        """Sample no more, until the next `begin`."""
        self._of_group.close()
        self.telemetry = None

    def begin(self, dilation: float) -> None:
        """Sample the group that runs now, if the configuration wants telemetry.

        Args:
            dilation: of time.
        """
        self.end()
        if self._job.telemetry.enabled:
            sampled = self._group.hosts.sampled(
                watched_hosts(self._group), sampling_of(self._job, dilation), self._clock
            )
            self.telemetry = self._of_group.enter_context(sampled)


def watched_hosts(group: GroupOnHosts) -> list[Watched]:
    """List the hosts of a living worker group, with the processes to sample.

    Args:
        group: the group; its processes run.

    Returns:
        The hosts, in order. A host has the role of its first process, and at most one GPU; a server's has none.
    """
    pids: dict[int, list[int]] = {}
    roles: dict[int, str] = {}
    for member, pid in zip(group.members, group.group.pids(), strict=True):
        pids.setdefault(member.host, []).append(pid)
        roles.setdefault(member.host, member.role)
    gpus = dict(enumerate(share.uuid for share in group.gpus))
    without = "" if gpus else None
    hosts = group.hosts
    return [
        Watched(
            hosts.hosts[host].name,
            roles[host],
            hosts.namespaces[host],
            pids[host],
            gpu=gpus.get(host, without),
        )
        for host in sorted(pids)
    ]


def sampling_of(job: SessionJob, dilation: float) -> Sampling:
    """Describe how the hosts of a session are sampled, and where the samples go.

    Args:
        job: the session's; it has at least one point.
        dilation: of time, while they are sampled.

    Returns:
        The sampler's settings: rate in Hz, time dilation, vCPU of a host, folder.
    """
    settings, group = job.telemetry, job.group
    return Sampling(
        run=group.run,
        started=settings.started,
        hertz=settings.hertz,
        dilation=dilation,
        vcpus=Point.from_dict(job.points[0].point).vcpus,
        on_gpus=group.devices == "gpu",
        folder=settings.folder,
        log=str(Path(group.logs) / "sampler.log"),
    )
