"""The jobs of worker groups that tests launch, and the points that these train."""

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ddlbench.environments.materials import BARE
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.roles import members, worker_of
from ddlbench.network.hosts import Host, Placement
from ddlbench.protocol.codec import read
from ddlbench.protocol.messages import (
    TrainingPoint,
)
from ddlbench.protocol.timeouts import Timeouts

DIGITS = [28, 28, 1]
POINT = {"dataset": "digits", "image_shape": DIGITS, "learning_rate": 0.05, "momentum": 0.9}
LIMITS = Timeouts(launch_s=600, prepare_s=600, step_s=300, heartbeat_s=300)


def training_point(given: Mapping[str, Any]) -> TrainingPoint:
    """A point of a test: what it does not say is as in POINT."""
    known = {field.name for field in fields(TrainingPoint)}
    return read(TrainingPoint, POINT | {key: value for key, value in given.items() if key in known})


def group_job(
    python: str,
    framework: str,
    strategy: str,
    workers: int,
    *,
    servers: int = 0,
    memory_gb: float = 4,
    core_share: float = 1.0,
    replayed: bool = False,
) -> GroupJob:
    """A group on hosts that have all cores in turn, over emulated links."""
    cores = sorted(os.sched_getaffinity(0))
    group = members(framework, strategy, workers, workers + servers)
    hosts = [
        Host(f"h{i}", f"10.66.0.{i}", (cores[i % len(cores)],), 1, int(memory_gb * 2**30), core_share)
        for i in range(1, max(member.host for member in group) + 2)
    ]
    return GroupJob(
        run="a-test",
        worker=worker_of(framework, strategy, replayed=replayed),
        strategy=strategy,
        fabric="emulated",
        placement=Placement(tuple(hosts), 1.0, memory_reduced=False),
        members=group,
        environments={BARE: RuntimeEnvironment(python)},
        timeouts=LIMITS,
        inherited=dict(os.environ),
        logs=str(Path.cwd()),
    )
