"""A loop that launches torchrun once for each point, in the same emulated hosts as our sweep."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from math import fsum
from pathlib import Path
from time import monotonic
from typing import Any

import psutil

from benchmarks.common import benchmark, in_sandbox, python_of_workers, say
from benchmarks.groups import placement_from, star_of
from benchmarks.plain_groups import Plain, plain
from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import place
from ddlbench.network.link import Link

POINT_TIMEOUT_S = 600

Record = dict[str, Any]


def torchrun_loop(chosen: Sequence[Record], folder: Path, *, say_as: str) -> list[Record]:
    """The points with `theirs_s`, the wall time of one torchrun each. Hosts are made once for points placed alike."""
    compared: list[Record] = []
    for _, alike in groupby(sorted(chosen, key=_placed_as), key=_placed_as):
        members = list(alike)
        job = {
            "python": python_of_workers(),
            "placement": placement_of(members[0]),
            "points": members,
            "datasets": str(folder / "results" / "datasets"),
            "done": f"{say_as}: torchrun",
        }
        compared += in_sandbox("benchmarks.torchrun_loop", job, timeout_s=60 + POINT_TIMEOUT_S * len(members))
    return compared


def _placed_as(member: Record) -> tuple[int, float, float]:
    """What decides where a point's hosts are, and their time: how many, and their dilation, planned and had."""
    return member["point"]["workers"], member["planned_dilation"], member["dilation"]


def placement_of(member: Record) -> dict[str, Any]:
    """The hosts as our sweep placed them, with the time dilation that the speed of their vCPUs made of the planned."""
    point, planned = member["point"], member["planned_dilation"]
    placement = place(
        point["workers"],
        **{key: point[key] for key in ("vcpus", "memory_gb", "host_count")},
        cores=sorted(os.sched_getaffinity(0)),
        available_memory_bytes=psutil.virtual_memory().available,
        dilation=planned if planned > 1 else "auto",
    )
    return asdict(replace(placement, dilation=member["dilation"]))


def inside(job: Mapping[str, Any]) -> list[Record]:
    """Launch torchrun for one point after another."""
    placement = placement_from(job["placement"])
    done = []
    with star_of(placement) as star:
        for port, each in enumerate(job["points"], start=29600):
            point = each["point"]
            link = point["bandwidth_mbit"] and Link(
                point["bandwidth_mbit"], point["latency_ms"], point["loss_percent"]
            )
            star.shape(link or None)
            shape = "x".join(map(str, point["image_shape"]))
            began = monotonic()
            with plain(
                "torch",
                star,
                placement,
                python=job["python"],
                model=point["model"],
                dataset=f"{job['datasets']}/{point['dataset']}-{shape}.npz",
                batch_size=point["batch_size"],
                port=port,
            ) as script:
                step_times_ms = _trained_ms(script, each)
            took_s = monotonic() - began
            say(f"{job['done']}: {each['words']}: {took_s:.1f} s (ours {each['ours_s']:.1f} s)")
            done.append({**each, "theirs_s": took_s, "their_steps_s": fsum(step_times_ms) / 1000})
    return done


def _trained_ms(script: Plain, each: Record) -> list[float]:
    """The step times; none where the point did not fit for us, and must not for torchrun either."""
    if each["fits"]:
        return script.step_times_ms(each["steps"])
    try:
        script.step_times_ms(each["steps"])
    except DdlbenchError:
        script.give_up()
        return []
    raise DdlbenchError(f"{each['words']}: this did not fit into our worker's memory, but into torchrun's")


def _only_in_a_sandbox(arguments: Sequence[str]) -> None:
    raise DdlbenchError("this is a part of the sweep's benchmark:  python -m benchmarks sweep")


if __name__ == "__main__":
    benchmark(_only_in_a_sandbox, inside)
