"""The probe of collectives among emulated hosts, in a sandbox of its own; also PyTorch's point-to-point messages.

python -m ddlbench.probes.collective_probe JOB.json ANSWER.json        (the first process of the sandbox)
"""

import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from ddlbench.environments.materials import BARE
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.errors import DdlbenchError
from ddlbench.hosts.group_on_hosts import launched
from ddlbench.launch.gpus import gpus_here
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.group_member import WorkerFailed
from ddlbench.launch.inherited import inherited_variables
from ddlbench.launch.roles import members
from ddlbench.launch.worker_group import WorkerGroup
from ddlbench.measurements.collectives import BUS_FACTORS, ELEMENT_BYTES, whole_bytes
from ddlbench.measurements.statistics import needs_repetition
from ddlbench.network.hosts import Placement, place
from ddlbench.network.limits import Capacity, check_link
from ddlbench.network.link import Link
from ddlbench.network.verify import Measured, verify
from ddlbench.plan.plan import NO_GPU
from ddlbench.probes.ping_pong import sizes
from ddlbench.protocol.measure import StopRule
from ddlbench.protocol.messages import TimeCollective, Timed
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.sandbox.job import answer_of, do
from ddlbench.system.gpu_shares import share_out

DEVICES = {"gloo": "cpu", "nccl": "gpu"}  # transport -> what the workers compute on
NOT_AVAILABLE = {
    ("gloo", "reduce_scatter"): "PyTorch's Gloo has none: what it offers under this name is an all-reduce"
}
PINGPONG = "pingpong"
_BATCH_S = 0.02  # a value is the mean over at least that long
_MOST_TIMES = 500
_MEMORY_GB = 4
_SEED = 1

Asked = tuple[str, int]  # a collective and its size in bytes


@dataclass(frozen=True)
class Found:
    """What a probe found: the slowest rank's seconds for each repetition, as they would be without time dilation."""

    times_s: dict[Asked, list[float]]
    not_available: dict[str, str]  # collective -> why
    measured: Measured | None  # the link; None if a worker failed before
    backend: str
    dilation: float
    vanished: str | None  # what went wrong, if the times are incomplete; else None


@dataclass(frozen=True, kw_only=True)
class How:
    """How collectives are probed.

    Attributes:
        transport: gloo, or nccl where there is a GPU.
        dilation: the least time dilation; it is larger where there are more hosts than cores.
        rule: how often each is measured.
        tolerances: how far the link may be from what was requested.
        timeouts: how long each phase of the worker group may take.
        python: the interpreter of PyTorch's environment.
        logs: the folder for the workers' output.
        congestion_control: TCP's algorithm.
    """

    transport: str
    dilation: float
    rule: StopRule
    tolerances: Tolerances
    timeouts: Timeouts
    python: str
    logs: Path
    congestion_control: str = "cubic"


@dataclass(frozen=True)
class CollectivesJob:
    """A worker group, the link between its hosts, and the collectives and sizes that it times."""

    group: GroupJob
    link: Link
    wanted: Sequence[Asked]
    rule: StopRule
    tolerances: Tolerances


@dataclass(frozen=True)
class TimedCollective:
    """The times of a collective of a size, in the dilated time of the hosts."""

    name: str
    size_bytes: int
    times_s: Sequence[float]


@dataclass(frozen=True)
class CollectivesProbed:
    """The answer of the process in the sandbox; `timed` is a part where `vanished` says what went wrong."""

    timed: Sequence[TimedCollective]
    measured: Measured | None
    backend: str
    vanished: str | None


def probe_collectives(
    link: Link,
    *,
    hosts: int,
    sizes_bytes: Sequence[int],
    collectives: Sequence[str] = tuple(BUS_FACTORS),
    how: How,
) -> Found:
    """Time collectives among emulated hosts.

    Args:
        link: each host's link, not dilated.
        hosts: how many, with one rank each.
        sizes_bytes: sizes of the whole array, in bytes; they are rounded down to what a collective can divide.
        collectives: names, keys of `BUS_FACTORS`.
        how: how they are probed.

    Returns:
        Times in s by collective and size; for each collective that the transport lacks, the reason.

    Raises:
        DdlbenchError: hosts, workers or the link cannot be started, or a result is wrong.
    """
    transport = how.transport
    why = {name: NOT_AVAILABLE[transport, name] for name in collectives if (transport, name) in NOT_AVAILABLE}
    wanted = {
        (name, whole_bytes(name, size, hosts)): None
        for name in collectives
        if name not in why
        for size in sizes_bytes
    }
    return replace(_probe(link, hosts, list(wanted), how), not_available=why)


def probe_messages(link: Link, *, largest_bytes: int, how: How) -> Found:
    """Time PyTorch's send and receive between two emulated hosts, with NetPIPE's message sizes.

    Args:
        link: each host's link, not dilated.
        largest_bytes: the largest message, in bytes.
        how: how they are probed.

    Returns:
        One-way times in s, half of a round trip; the keys are PINGPONG and the size in bytes.

    Raises:
        DdlbenchError: hosts, workers or the link cannot be started, or a message arrives wrong.
    """
    found = _probe(link, 2, [(PINGPONG, size) for size in sizes(largest_bytes)], how)
    return replace(found, times_s={asked: [each / 2 for each in s] for asked, s in found.times_s.items()})


def _probe(link: Link, hosts: int, wanted: list[Asked], how: How) -> Found:
    """Time collectives with workers on emulated hosts, once the link is verified.

    Raises:
        DdlbenchError: hosts, workers or the link cannot be started, or a result is wrong.
    """
    on_gpus = DEVICES[how.transport] == "gpu"
    if on_gpus and not gpus_here():
        raise DdlbenchError(f"{how.transport}: {NO_GPU}; gloo does without")
    placed = _placement(hosts, how.dilation)
    placement = replace(placed, gpus=share_out(gpus_here(), hosts)) if on_gpus else placed
    group = GroupJob(
        run="collectives",
        worker="torch_collectives",
        devices="gpu" if on_gpus else "cpu",
        fabric="emulated",
        congestion_control=how.congestion_control,
        placement=placement,
        members=members("torch", "ring_allreduce", hosts, hosts),
        environments={BARE: RuntimeEnvironment(how.python)},
        timeouts=how.timeouts,
        inherited=inherited_variables(),
        logs=str(how.logs.resolve()),
    )
    job = CollectivesJob(group, link, wanted, how.rule, how.tolerances)
    answer = answer_of("ddlbench.probes.collective_probe", job, CollectivesProbed, logs=how.logs)
    times = {
        (each.name, each.size_bytes): [value / placement.dilation for value in each.times_s]
        for each in answer.timed
    }
    return Found(times, {}, answer.measured, answer.backend, placement.dilation, answer.vanished)


def _placement(hosts: int, dilation: float) -> Placement:
    """Place one host on each core while there are enough; dilate by `dilation`, or more if hosts share a core."""
    placement = place(
        hosts,
        vcpus=1,
        memory_gb=_MEMORY_GB,
        host_count=hosts,
        cores=sorted(os.sched_getaffinity(0)),
        available_memory_bytes=psutil.virtual_memory().available,
    )
    return replace(placement, dilation=max(dilation, placement.dilation))


def run(job: CollectivesJob) -> CollectivesProbed:
    """Make hosts and link and time the collectives, in the sandbox.

    Args:
        job: what is timed.

    Returns:
        Times in the dilated time of the hosts; a part of them, with the reason, if a worker fails on the way.

    Raises:
        WorkerFailed: a worker failed before anything was timed.
        DdlbenchError: hosts or link cannot be made, the link is out of tolerance, or a result is wrong.
    """
    times_s: dict[Asked, list[float]] = {each: [] for each in job.wanted}
    vanished, measured, backend = None, None, ""
    try:
        with launched(job.group) as on_hosts:
            group, star = on_hosts.group, on_hosts.hosts.star
            assert star is not None
            for each in job.wanted:  # TCP's windows open while the links are unshaped
                _seconds(group, each, 1, job.group.timeouts)
            hosts = len(star.addresses)
            check_link(Capacity(star), job.link, hosts=hosts, senders=hosts)
            star.shape(job.link)
            measured = verify(star, job.link, job.tolerances)
            backend = star.backend.name
            with on_hosts.fillers.running():
                _time(group, times_s, job)
            star.backend.check()
    except WorkerFailed as error:
        if not any(times_s.values()):
            raise
        vanished = str(error)
    timed = [TimedCollective(name, size, values) for (name, size), values in times_s.items()]
    return CollectivesProbed(timed, measured, backend, vanished)


def _time(group: WorkerGroup, times_s: dict[Asked, list[float]], job: CollectivesJob) -> None:
    """Time all in turn, in random order, until the stop rule is satisfied; the first round is a warm-up."""
    timeouts = job.group.timeouts
    times = {each: max(1, _batch(_seconds(group, each, 1, timeouts))) for each in times_s}
    order = random.Random(_SEED)
    while todo := [each for each, values in times_s.items() if needs_repetition(values, job.rule)]:
        order.shuffle(todo)
        for each in todo:
            times_s[each].append(_seconds(group, each, times[each], timeouts))


def _batch(once_s: float) -> int:
    return min(_MOST_TIMES, round(_BATCH_S / once_s))


def _seconds(group: WorkerGroup, asked: Asked, times: int, timeouts: Timeouts) -> float:
    """Return the slowest rank's time of one operation, in s. Raises DdlbenchError if a rank got a wrong result."""
    name, size = asked
    elements = size if name == PINGPONG else size // ELEMENT_BYTES
    limit_s = timeouts.prepare_s + timeouts.step_s
    command = TimeCollective(name, elements, times)
    answers = group.command(command, Timed, f"timing {name} of {size} bytes", limit_s)
    if wrong := [rank for rank, answer in enumerate(answers) if not answer.right]:
        raise DdlbenchError(
            f"{name} of {size} bytes: the result on rank {', '.join(map(str, wrong))} is wrong"
        )
    return max(answer.seconds for answer in answers)


if __name__ == "__main__":
    sys.exit(do(CollectivesJob, run))
