"""Bytes that a host sends and receives in a step, measured, against theory.

In each direction, a host of a ring of N all-reduces 2(N-1)/N x size; a parameter server with N workers N x size, and
each of these workers the size once. Counted by the kernel in each host's own network namespace from the first timed
step to the last. The payload of TCP is what theory speaks of; frames as they are on a wire add their headers (66 bytes
for at most 1,448) and acknowledgements, and how many of those there are depends on timing. Size: 4 bytes a parameter.
No loss.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.common import benchmark, digits, in_sandbox, options, python_of_workers, row, save, say
from benchmarks.groups import ours, star_of, two_cores
from benchmarks.watched import watched
from ddlbench.network.hosts import place
from ddlbench.network.link import Link

SYSTEMS = (  # framework, strategy; those whose group has one process on each host, which is what is counted
    ("torch", "ring_allreduce"),
    ("torch", "parameter_server_sync"),
    ("torch", "parameter_server_async"),
    ("tensorflow", "ring_allreduce"),
    ("tensorflow", "parameter_server_sync"),
)
MODELS = ("mlp", "conv1")
THEORY: dict[
    str, Callable[[int], list[float]]
] = {  # strategy -> of N workers: each host's bytes, in units of the size
    "ring_allreduce": lambda n: [2 * (n - 1) / n] * n,
    "parameter_server_sync": lambda n: [1.0] * n + [float(n)],  # the server's host is the last one
    "parameter_server_async": lambda n: [1.0] * n + [float(n)],
}
WORKERS = (2, 4)
BATCH_SIZE = 64
LINK = Link(400)
WITHIN_PERCENT = 5.0
PARAMETER_BYTES = 4


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, steps=10)
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        pythons = {framework: python_of_workers(framework) for framework, _ in SYSTEMS}
        job = {**vars(asked), "pythons": pythons, "dataset": digits(Path(folder))}
        found = in_sandbox("benchmarks.wire_bytes", job, timeout_s=900)
    rows = [
        _row(system, [each for each in found if (each["framework"], each["strategy"]) == system])
        for system in SYSTEMS
    ]
    save("wire_bytes", rows, {"hosts": found, "link": asdict(LINK), "asked": vars(asked)})


def _row(system: tuple[str, str], found: list[dict[str, Any]]) -> dict[str, Any]:
    worst = max(found, key=lambda each: abs(each["payload_percent"]))
    frames = [each["frames_percent"] for each in found]
    framework, strategy = system
    return row(
        f"bytes on the wire per step and host against theory, {strategy.replace('_', ' ')} ({framework})",
        at_least=f"within {WITHIN_PERCENT:g} %",
        measured=f"TCP payload {worst['payload_percent']:+.2f} % ({worst['model']}, {worst['workers']} workers, "
        f"the farthest of {len(found)}); as frames {min(frames):+.1f} to {max(frames):+.1f} %",
        peer=f"theory; {', '.join(MODELS)}; {' and '.join(map(str, WORKERS))} workers, {LINK}",
        met=abs(worst["payload_percent"]) <= WITHIN_PERCENT,
    )


def inside(job: dict[str, Any]) -> list[dict[str, Any]]:
    """For each system, number of workers, model, host, direction: bytes a step, and how far they are from theory."""
    found = []
    for (framework, strategy), workers in product(SYSTEMS, WORKERS):
        units = THEORY[strategy](workers)
        placement = place(
            len(units),
            vcpus=1,
            memory_gb=2,
            host_count=len(units),
            cores=two_cores(),
            available_memory_bytes=psutil.virtual_memory().available,
        )
        with (
            star_of(placement) as star,
            ours(
                star,
                placement,
                python=job["pythons"][framework],
                dataset=job["dataset"],
                models=MODELS,
                framework=framework,
                strategy=strategy,
                servers=len(units) - workers,
            ) as group,
            watched(group, star, placement) as telemetry,
        ):
            star.shape(LINK)
            for model in MODELS:
                parameters = group.take(model, BATCH_SIZE)[0].parameter_count or 0
                group.train(1)
                telemetry.begin(model, 0)
                group.train(job["steps"])
                hosts = telemetry.end(job["steps"]).hosts
                for unit, (host, counted) in zip(units, hosts.items(), strict=True):
                    theory = unit * PARAMETER_BYTES * parameters
                    for direction in ("sent", "received"):
                        payload = counted[f"{direction}_payload_bytes_per_step"]
                        frames = counted[f"{direction}_bytes_per_step"]
                        found.append(
                            {
                                "framework": framework,
                                "strategy": strategy,
                                "workers": workers,
                                "model": model,
                                "host": host,
                                "direction": direction,
                                "theory_bytes": theory,
                                "payload_bytes": payload,
                                "frames_bytes": frames,
                                "payload_percent": 100 * (payload / theory - 1),
                                "frames_percent": 100 * (frames / theory - 1),
                            }
                        )
                say(
                    f"{framework} {strategy}, {workers} workers, {model}: {found[-1]['payload_percent']:+.3f} %"
                )
    return found


if __name__ == "__main__":
    benchmark(main, inside)
