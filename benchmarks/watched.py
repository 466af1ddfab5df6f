"""Telemetry of our worker group in a benchmark: on for as long as a `with` lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.groups import Ours
from ddlbench.network.hosts import Placement
from ddlbench.network.star import Star
from ddlbench.protocol.agent_messages import Sampling
from ddlbench.system.clock import Clock
from ddlbench.telemetry.telemetry import Telemetry, Watched, sampled


@contextmanager
def watched(group: Ours, star: Star, placement: Placement, hertz: float = 10) -> Iterator[Telemetry]:
    """A sampler beside the group, as a run has one; what it writes is thrown away."""
    hosts = [
        Watched(host.name, "worker", namespace, [pid])
        for host, namespace, pid in zip(placement.hosts, star.namespaces, group.group.pids(), strict=True)
    ]
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        sampling = Sampling(
            run="benchmark",
            started=datetime.now(UTC).isoformat(),
            hertz=hertz,
            dilation=placement.dilation,
            vcpus=1,
            on_gpus=False,
            folder=folder,
            log=str(Path(folder) / "sampler.log"),
        )
        with sampled(hosts, sampling, Clock()) as telemetry:
            yield telemetry
