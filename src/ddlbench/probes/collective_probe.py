"""The probe of collectives among emulated hosts, in a sandbox of its own; also PyTorch's point-to-point messages.

python -m ddlbench.probes.collective_probe JOB.json ANSWER.json        (the first process of the sandbox)
"""

import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from ddlbench.errors import DdlbenchError
from ddlbench.hosts.launch import launched
from ddlbench.launch.gpus import gpus_here
from ddlbench.launch.roles import members
from ddlbench.launch.worker_group import WorkerFailed, WorkerGroup
from ddlbench.measurements.collectives import BUS_FACTORS, ELEMENT_BYTES, whole_bytes
from ddlbench.measurements.statistics import needs_repetition
from ddlbench.network.hosts import Placement, place
from ddlbench.network.link import Link
from ddlbench.network.verify import Tolerances, verify
from ddlbench.plan.plan import NO_GPU
from ddlbench.probes.ping_pong import sizes
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
    """What a probe found: seconds of each repetition, the slowest rank's, as they would be without time dilation."""

    times_s: dict[Asked, list[float]]
    not_available: dict[str, str]  # collective -> why
    measured: dict[str, float]  # the link
    backend: str
    dilation: float
    vanished: str | None  # what went wrong, where this is a part only


def probe_collectives(
    link: Link,
    *,
    hosts: int,
    sizes_bytes: Sequence[int],
    collectives: Sequence[str] = tuple(BUS_FACTORS),
    **how: Any,
) -> Found:
    """Time collectives among emulated hosts; for `how` see `_probe`."""
    transport = how["transport"]
    why = {name: NOT_AVAILABLE[transport, name] for name in collectives if (transport, name) in NOT_AVAILABLE}
    wanted = {
        (name, whole_bytes(name, size, hosts)): None
        for name in collectives
        if name not in why
        for size in sizes_bytes
    }
    return replace(_probe(link, hosts, list(wanted), **how), not_available=why)


def probe_messages(link: Link, *, largest_bytes: int, **how: Any) -> Found:
    """One-way times of PyTorch's send and receive between two emulated hosts, of NetPIPE's sizes; see `_probe`."""
    found = _probe(link, 2, [(PINGPONG, size) for size in sizes(largest_bytes)], **how)
    return replace(found, times_s={asked: [each / 2 for each in s] for asked, s in found.times_s.items()})


def _probe(
    link: Link,
    hosts: int,
    wanted: list[Asked],
    *,
    transport: str,
    dilation: float,
    measure: Mapping[str, Any],
    tolerances: Mapping[str, float],
    timeouts: Mapping[str, float],
    python: str,
    logs: Path,
    congestion_control: str = "cubic",
) -> Found:
    """Have workers on emulated hosts time what is wanted, once the link is verified.

    transport: gloo, or nccl where there is a GPU. dilation: at least that; more where there are more hosts than cores.
    measure: the stop rule. python: the interpreter of PyTorch's environment. logs: a folder. Raises DdlbenchError where
    hosts, workers or the link cannot be had, or a result is wrong.
    """
    on_gpus = DEVICES[transport] == "gpu"
    if on_gpus and not gpus_here():
        raise DdlbenchError(f"{transport}: {NO_GPU}; gloo does without")
    placed = _placement(hosts, dilation)
    placement = replace(placed, gpus=share_out(gpus_here(), hosts)) if on_gpus else placed
    job = {
        "link": link.as_dict(),
        "wanted": wanted,
        "devices": DEVICES[transport],
        "fabric": "emulated",
        "placement": asdict(placement),
        "members": [asdict(each) for each in members("torch", "ring_allreduce", hosts, hosts)],
        "measure": dict(measure),
        "tolerances": dict(tolerances),
        "timeouts": dict(timeouts),
        "python": python,
        "inherited": dict(os.environ),
        "interfaces": {},
        "sites": 1,
        "congestion_control": congestion_control,
        "logs": str(logs.resolve()),
    }
    told = answer_of("ddlbench.probes.collective_probe", job, logs=logs)
    times = {(name, size): [each / placement.dilation for each in s] for name, size, s in told["times_s"]}
    return Found(times, {}, told["measured"], told["backend"], placement.dilation, told["vanished"])


def _placement(hosts: int, dilation: float) -> Placement:
    """One host a core while there are enough; time is dilated by what the link asks for, or the hosts on a core."""
    placement = place(
        hosts,
        vcpus=1,
        memory_gb=_MEMORY_GB,
        host_count=hosts,
        cores=sorted(os.sched_getaffinity(0)),
        available_memory_bytes=psutil.virtual_memory().available,
    )
    return replace(placement, dilation=max(dilation, placement.dilation))


def run(job: Mapping[str, Any]) -> dict[str, Any]:
    """Make hosts and link and time what is wanted; a worker that is lost leaves what was measured until then."""
    link, wanted = Link(**job["link"]), [(name, size) for name, size in job["wanted"]]
    times_s: dict[Asked, list[float]] = {each: [] for each in wanted}
    told: dict[str, Any] = {"vanished": None}
    try:
        with launched(job, "torch_collectives", {}) as crew:
            group, star = crew.group, crew.star
            assert star is not None
            for each in wanted:  # windows open while the links are
                _seconds(group, each, 1, job["timeouts"])
            star.shape(link)
            measured = verify(star, link, Tolerances(**job["tolerances"]))
            told |= {"measured": measured.as_dict(), "backend": star.backend.name}
            _time(group, times_s, job)
            star.backend.check()
    except WorkerFailed as error:
        if not any(times_s.values()):
            raise
        told["vanished"] = str(error)
    return {**told, "times_s": [(name, size, values) for (name, size), values in times_s.items()]}


def _time(group: WorkerGroup, times_s: dict[Asked, list[float]], job: Mapping[str, Any]) -> None:
    """Take all in turn, in random order, until the stop rule is content; the first round is a warm-up."""
    times = {each: max(1, _batch(_seconds(group, each, 1, job["timeouts"]))) for each in times_s}
    order = random.Random(_SEED)
    while todo := [each for each, values in times_s.items() if needs_repetition(values, job["measure"])]:
        order.shuffle(todo)
        for each in todo:
            times_s[each].append(_seconds(group, each, times[each], job["timeouts"]))


def _batch(once_s: float) -> int:
    return min(_MOST_TIMES, round(_BATCH_S / once_s))


def _seconds(group: WorkerGroup, asked: Asked, times: int, timeouts: Mapping[str, float]) -> float:
    """The slowest rank's time of one operation. Raises DdlbenchError where a rank got a wrong result."""
    name, size = asked
    elements = size if name == PINGPONG else size // ELEMENT_BYTES
    command = {"do": "time", "collective": name, "elements": elements, "times": times}
    limit_s = timeouts["prepare_s"] + timeouts["step_s"]
    answers = group.command(command, "timed", f"timing {name} of {size} bytes", limit_s)
    if wrong := [rank for rank, answer in enumerate(answers) if not answer["right"]]:
        raise DdlbenchError(
            f"{name} of {size} bytes: the result on rank {', '.join(map(str, wrong))} is wrong"
        )
    return max(float(answer["seconds"]) for answer in answers)


if __name__ == "__main__":
    sys.exit(do(run))
