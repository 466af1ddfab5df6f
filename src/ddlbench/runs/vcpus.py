"""How fast the vCPUs of emulated hosts are: several of a host are made of one core, and are as fast as threads are.

How the step of a model scales with the threads that this machine has is measured once for each framework, model and
number of images, and kept beside the store by the hash of all that determines it. More threads are extrapolated.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import log2
from pathlib import Path
from typing import Any

from ddlbench.code.purposes import code_for
from ddlbench.environments.materials import BARE
from ddlbench.errors import DdlbenchError, DiskFull
from ddlbench.files import canonical_json, read_json, sha256_json, write_atomically
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.roles import members
from ddlbench.measurements.record import seal
from ddlbench.network.hosts import Host, Placement
from ddlbench.plan import Point
from ddlbench.probes.thread_scaling import MODULE, Scaling, Scalings, ThreadsJob
from ddlbench.runs.inventory import Inventory
from ddlbench.sandbox.job import answer_of
from ddlbench.shares.amdahl import speedup, thread_counts
from ddlbench.sweep.repetition import training_point
from ddlbench.sweep.session_job import VcpuSpeed

# Beside the store: notes from one call to the next. Each record has what it needs of them.
FOLDER = ".threads"
# Of a step that is measured: with so many each thread has work enough, and more would take minutes.
MOST_IMAGES = 1024
_ADDRESS = "127.0.0.1"


def vcpu_speeds(
    inventory: Inventory, group: GroupJob, points: Mapping[str, Point], since: datetime | None = None
) -> dict[str, VcpuSpeed]:
    """Find, or measure, how many times as fast as one thread the threads of the points' hosts are.

    Args:
        inventory: for this machine, the environments and the settings.
        group: of a run; groups of one worker are made like it.
        points: by any key, all of the group's framework and strategy.
        since: what was measured before this moment does not count; None: all counts.

    Returns:
        By the same keys, of points whose hosts have several vCPUs that are made of one core.
    """
    made = {key: point for key, point in points.items() if vcpus_of_a_core(point, group.placement) > 1}
    about = {key: _about(point, inventory, group) for key, point in made.items()}
    hashes = {key: sha256_json(each) for key, each in about.items()}
    folder = inventory.store.root.parent / FOLDER
    known = {each: found for each in hashes.values() if (found := kept(folder / f"{each}.json", since))}
    if lacking := {hashes[key]: point for key, point in made.items() if hashes[key] not in known}:
        told = {hashes[key]: about[key] for key in made}
        for each, scaling in _measured(lacking, inventory, group).items():
            own = _as_json(scaling, told[each]["threads"])
            known[each] = {**told[each], **own, "date": datetime.now(UTC).isoformat()}
            if not scaling.why_not:
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(folder / f"{each}.json", canonical_json(seal(known[each])) + "\n")
    return {
        key: _speed(known[hashes[key]], vcpus_of_a_core(point, group.placement))
        for key, point in made.items()
    }


def vcpus_of_a_core(point: Point, placement: Placement) -> int:
    """Count the vCPUs that are made of one core, or of a share of one.

    Args:
        point: of the plan.
        placement: of its hosts.

    Returns:
        Those of a worker's host; 1 where a host has a core for each, or no processor computes here.
    """
    is_emulated = point.fabric == "emulated" and point.devices == "cpu" and not point.replay
    vcpus = point.vcpus // point.workers_per_host
    return vcpus if is_emulated and placement.hosts[0].threads == 1 else 1


def images_of_a_worker(point: Point) -> int:
    """Round a worker's share of a batch, as threads scale nearly alike with nearly as many images.

    Args:
        point: of the plan.

    Returns:
        The nearest power of two, from 2 (which BatchNorm needs) to MOST_IMAGES.
    """
    images = max(2.0, point.batch_size / point.workers)
    return int(min(MOST_IMAGES, 2 ** round(log2(images))))


def _about(point: Point, inventory: Inventory, group: GroupJob) -> dict[str, Any]:
    """What determines how a point's step scales with threads."""
    vcpus = vcpus_of_a_core(point, group.placement)
    return {
        **{key: getattr(point, key) for key in ("framework", "strategy", "model", "momentum")},
        "image_shape": list(point.image_shape),
        "batch_size": images_of_a_worker(point),
        "threads": thread_counts(len(_cores()), vcpus),
        "environment": inventory.environments[point.runtime].sha256,
        "code": code_for(f"threads {group.worker}").sha256,
        "repetition": {
            key: getattr(inventory.measure, key) for key in ("step_budget_s", "max_steps", "interval_percent")
        },
        "machine": {key: inventory.facts[key] for key in ("cpu_model", "cores")},
        "most_others_percent": _most_others_percent(inventory),  # who ignores others keeps notes of his own
    }


def _most_others_percent(inventory: Inventory) -> float | None:
    """What others may take of the cores meanwhile; None: that is not judged."""
    settings = inventory.plan.settings
    return None if settings.other_measurements == "ignore" else settings.tolerances.others_percent


def kept(file: Path, since: datetime | None) -> dict[str, Any] | None:
    """Read what was measured before.

    Args:
        file: its note.
        since: what is older does not count; None: all counts.

    Returns:
        The note; None if there is none that counts. One that is damaged is named on stderr.
    """
    try:
        found = read_json(file)
        whole = seal(found)["checksum"] == found["checksum"]
        counts = since is None or datetime.fromisoformat(found["date"]) >= since
        if whole:
            return dict(found) if counts else None
        why = "its checksum is wrong"
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    print(f"{file}: damaged ({why}); it is measured again", file=sys.stderr, flush=True)
    return None


def _measured(points: Mapping[str, Point], inventory: Inventory, group: GroupJob) -> dict[str, Scaling]:
    """Measure in a sandbox; what fails is not measured, and says why."""
    vcpus = {vcpus_of_a_core(point, group.placement) for point in points.values()}
    counts = sorted({count for each in vcpus for count in thread_counts(len(_cores()), each)})
    if BARE not in group.environments:
        return dict.fromkeys(points, Scaling((), "threads are measured outside of containers only"))
    if len(counts) < 2:
        return dict.fromkeys(points, Scaling((), "this machine has one core"))
    names = ", ".join(f"{each.model} of {images_of_a_worker(each)} images" for each in points.values())
    print(f"timing steps with {' and '.join(map(str, counts))} threads: {names}", file=sys.stderr, flush=True)
    measure = inventory.measure
    job = ThreadsJob(
        [_of_one_worker(group, count, next(iter(points.values()))) for count in counts],
        [replace(training_point(each), batch_size=images_of_a_worker(each)) for each in points.values()],
        [vcpus_of_a_core(each, group.placement) for each in points.values()],
        measure.interval_percent,
        measure.seed,
        measure.step_budget_s,
        measure.max_steps,
        _most_others_percent(inventory),
    )
    try:
        answer = answer_of(MODULE, job, Scalings, what="measuring the speed-up of threads")
    except DiskFull:  # which ends the run, as everywhere
        raise
    except DdlbenchError as error:
        print(error, file=sys.stderr, flush=True)
        return dict.fromkeys(points, Scaling((), str(error)))
    return dict(zip(points, answer.of_points, strict=True))


def _of_one_worker(group: GroupJob, threads: int, point: Point) -> GroupJob:
    """A group like a run's, of one worker with so many threads and cores."""
    host = Host("h1", _ADDRESS, tuple(_cores()[:threads]), threads, group.placement.hosts[0].memory_bytes)
    return replace(
        group,
        run=f"{group.run}-threads{threads}",
        fabric="loopback",
        sites=1,
        workers_per_host=1,
        runtime=BARE,
        environments={BARE: group.environments[BARE]},
        placement=Placement((host,), 1.0, memory_reduced=False),
        members=members(point.framework, point.strategy, 1, 1),
        logs=str(Path(group.logs) / f"threads{threads}"),
    )


def _as_json(scaling: Scaling, threads: Sequence[int]) -> dict[str, Any]:
    """Without the numbers of threads that only points of other hosts needed: all were measured at the same time."""
    if scaling.why_not:
        return {"why_not": scaling.why_not}
    return {
        "step_ms": {
            str(each.threads): list(each.step_ms) for each in scaling.of_threads if each.threads in threads
        }
    }


def _speed(found: Mapping[str, Any], vcpus: int) -> VcpuSpeed:
    """What a record says of a host's vCPUs."""
    if "why_not" in found:
        return VcpuSpeed(vcpus=vcpus, why_not=found["why_not"])
    times_ms = {int(threads): times for threads, times in found["step_ms"].items()}
    value, low, high = speedup(times_ms, vcpus)
    return VcpuSpeed(
        vcpus=vcpus,
        speedup=value,
        low=low,
        high=high,
        threads=sorted(times_ms),
        repetitions=min(map(len, times_ms.values())),
        batch_size=found["batch_size"],
        date=found["date"],
    )


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))
