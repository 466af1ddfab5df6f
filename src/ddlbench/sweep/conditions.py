"""What a record says of a repetition beside what was measured: how its hosts were, and what it was made from."""

from dataclasses import asdict

from ddlbench.environments.runtime_environment import OF_A_RECORD
from ddlbench.hosts.group_on_hosts import GroupOnHosts
from ddlbench.plan import Point
from ddlbench.shares.systematic_error import systematic_error
from ddlbench.sweep.rounds import PendingPoint
from ddlbench.sweep.session_job import SessionJob


def conditions(job: SessionJob, group: GroupOnHosts, pending: PendingPoint) -> dict[str, object]:
    """Say what is measured, how its hosts are, and what it is made from.

    Args:
        job: of the session.
        group: the living worker group.
        pending: the point, before the repetition.

    Returns:
        The point and the number of the repetition; the dilation and the one that was planned, threads and memory
        (bytes) of a host, what the emulation is known to be off, how fast the host's vCPUs are, how long the scheduler
        lets a worker keep its core (ms); and `provenance`: data set, environment, code, hosts, GPUs where there are
        some, fabric, and what makes the links.
    """
    placement, speed = job.group.placement, job.vcpu_speeds.get(pending.fingerprint)
    return {
        "fingerprint": pending.fingerprint,
        "point": pending.point.as_dict(),
        "repetition": pending.repetition,
        "run": job.group.run,
        "dilation": pending.dilation,
        "planned_dilation": placement.planned_dilation,
        "threads": placement.hosts[0].threads,
        "host_memory_bytes": placement.hosts[0].memory_bytes,
        "systematic_error": systematic_error(
            job.judged, placement, group.divided_between, speed.vcpus if speed and speed.speedup else 1
        ),
        "vcpu_speed": speed and {key: value for key, value in asdict(speed).items() if value is not None},
        "slice_ms": group.group.ready[0].slice_ms,
        "provenance": _sources(job, group, pending.point),
    }


def _sources(job: SessionJob, group: GroupOnHosts, point: Point) -> dict[str, object]:
    """The inputs of a repetition, and the hosts that it runs on."""
    dataset = job.datasets[point.dataset_key]
    environment = asdict(job.group.environments[point.runtime])
    star = group.hosts.star
    return {
        "dataset": {"name": dataset.name, "sha256": dataset.sha256},
        "environment": {key: environment[key] for key in OF_A_RECORD if environment[key] is not None},
        "code": job.code,
        "hosts": list(group.hosts.facts),
        **group.hosts.provenance,
        **({"gpus": _gpus(group)} if job.group.devices == "gpu" else {}),
        "fabric": point.fabric,
        "backend": star.backend.name if star else None,
    }


def _gpus(group: GroupOnHosts) -> dict[str, object]:
    """Each worker's GPU, if it is on this machine; how many workers share one; the versions of the libraries."""
    return {
        "of_workers": [asdict(share) for share in group.gpus],
        "workers_per_gpu": max((share.workers for share in group.gpus), default=1),
        "versions": dict(group.group.ready[0].versions),
    }
