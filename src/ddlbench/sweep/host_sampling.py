"""Which processes of each host are sampled while a session measures, and how."""

from pathlib import Path

from ddlbench.hosts.group_on_hosts import GroupOnHosts
from ddlbench.plan import Point
from ddlbench.protocol.agent_messages import Sampling
from ddlbench.sweep.session_job import SessionJob
from ddlbench.telemetry.telemetry import Watched


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
