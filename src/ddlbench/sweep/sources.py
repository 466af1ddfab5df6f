"""What a repetition was made from, and where: the part `provenance` of its record."""

from dataclasses import asdict

from ddlbench.environments.runtime_environment import OF_A_RECORD
from ddlbench.hosts.group_on_hosts import GroupOnHosts
from ddlbench.plan import Point
from ddlbench.sweep.session_job import SessionJob


def sources(job: SessionJob, group: GroupOnHosts, point: Point) -> dict[str, object]:
    """List the inputs of a repetition, and the hosts that it runs on.

    Args:
        job: of the session.
        group: the living worker group.
        point: what is measured.

    Returns:
        Data set, environment, code, hosts, GPUs where there are some, fabric, and what makes the links.
    """
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
