"""The memory that a worker takes at most, measured, against what is predicted before anything starts.

Measured is the largest resident size that the kernel has noted of a process (VmHWM) after it has connected, prepared a
point and trained it. The models that judge are not those by which the constants of the prediction were chosen:
`--models choosing` measures these.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import log, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import benchmark, in_sandbox, options, python_of_workers, row, save, say
from benchmarks.groups import hosts_on, ours, star_of, two_cores
from ddlbench.datasets import prepare
from ddlbench.datasets.synthetic import image_counts
from ddlbench.launch.roles import members, worker_of
from ddlbench.plan.catalogue import FRAMEWORKS
from ddlbench.workers.common.footprint.footprint import Training, process_bytes
from ddlbench.workers.common.footprint.step_memory import FLOAT_BYTES

SYSTEMS = (
    ("torch", "ring_allreduce"),
    ("torch", "parameter_server_sync"),
    ("tensorflow", "ring_allreduce"),
    ("tensorflow", "parameter_server_sync"),
    ("tensorflow", "parameter_server_async"),
    ("horovod_torch", "ring_allreduce"),
    ("horovod_tensorflow", "ring_allreduce"),
    ("mxnet", "parameter_server_sync"),
)
CASES = {  # model, shape of its images, images of a worker
    "judging": (
        ("mlp", (28, 28, 1), 256),
        ("mlp", (28, 28, 1), 16384),
        ("conv2", (28, 28, 1), 128),
        ("conv2", (28, 28, 1), 8192),
        ("resnet18", (224, 224, 3), 4),
        ("resnet18", (224, 224, 3), 16),
        ("alexnet", (224, 224, 3), 4),
        ("alexnet", (224, 224, 3), 64),
    ),
    "choosing": (
        ("conv1", (28, 28, 1), 128),
        ("cnn", (28, 28, 1), 8192),
        ("keras_sequential", (32, 32, 3), 4096),
        ("resnet50", (32, 32, 3), 16),
        ("resnet50", (224, 224, 3), 12),
        ("vgg16", (32, 32, 3), 8),
        ("vgg16", (32, 32, 3), 256),
    ),
}
WORKERS = 2
MEMORY_GB = 10
MOMENTUM = 0.9
STEPS = 3
WITHIN_PERCENT = 25.0
KIB = 1024


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, models="judging", frameworks="")
    systems = [each for each in SYSTEMS if not asked.frameworks or each[0] in asked.frameworks.split(",")]
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        files = {}
        for _, shape, _ in CASES[asked.models]:
            words = "x".join(map(str, shape))
            if words not in files:
                files[words] = str(Path(folder) / f"{words}.npz")
                prepare("synthetic", None, files[words], shape)
        pythons = {
            framework: python_of_workers(FRAMEWORKS[framework].environment) for framework, _ in systems
        }
        job = {"systems": systems, "cases": CASES[asked.models], "pythons": pythons, "files": files}
        found = in_sandbox("benchmarks.memory", job, timeout_s=3000)
    for each in found:
        each["predicted"] = predicted(each)
        each["ratio"] = each["predicted"] / each["resident"]
    trained = [each for each in found if each["trained"]]  # what took no step has not shown what a step needs
    rows = [
        _row(system, processes)
        for system in systems
        if (processes := [each for each in trained if (each["framework"], each["strategy"]) == system])
    ]
    save("memory", rows, {"processes": found, "asked": vars(asked)})


def predicted(process: Mapping[str, Any]) -> int:
    """The bytes that are predicted for a process that was measured."""
    height, width, channels = process["shape"]
    training = Training(
        process["model"],
        (height, width, channels),
        process["images"],
        WORKERS,
        ((process["model"], (height, width, channels)),),
        has_momentum=MOMENTUM > 0,
        data_bytes=FLOAT_BYTES * prod(process["shape"]) * sum(image_counts(prod(process["shape"]))),
    )
    worker = worker_of(process["framework"], process["strategy"])
    return process_bytes(worker, process["role"], training)


def _row(system: tuple[str, str], found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    farthest = max(found, key=lambda each: abs(log(each["ratio"])))
    ratios = [each["ratio"] for each in found]
    framework, strategy = system
    what = f"{farthest['role']}, {farthest['model']}, {farthest['images']} images"
    return row(
        f"memory of a process, predicted by measured, {framework}, {strategy.replace('_', ' ')}",
        at_least=f"within {WITHIN_PERCENT:g} %",
        measured=f"{farthest['ratio']:.2f} ({what}, the farthest of {len(found)}; all {min(ratios):.2f} to "
        f"{max(ratios):.2f})",
        peer=f"the largest resident size that the kernel noted; {', '.join(dict.fromkeys(e['model'] for e in found))}",
        met=all(abs(ratio - 1) <= WITHIN_PERCENT / 100 for ratio in ratios),
    )


def inside(job: dict[str, Any]) -> list[dict[str, Any]]:
    """For each system, model and process of the group: the largest resident size after each phase."""
    found = []
    for (framework, strategy), (model, shape, images) in product(job["systems"], job["cases"]):
        placement = hosts_on(two_cores(), WORKERS, memory_gb=MEMORY_GB)
        words = "x".join(map(str, shape))
        phases: list[dict[str, list[int]]] = []
        with (
            star_of(placement) as star,
            ours(
                star,
                placement,
                python=job["pythons"][framework],
                dataset=job["files"][words],
                models=[model],
                framework=framework,
                strategy=strategy,
                images="synthetic",
                shape=tuple(shape),
            ) as group,
        ):
            phases.append(sizes(group.group.pids()))
            fits = all(each.fits for each in group.take(model, WORKERS * images, MOMENTUM))
            phases.append(sizes(group.group.pids()))
            if fits:
                group.train(1)
                group.train(STEPS, from_fresh=True)
                group.group.conclude(evaluate=False)
                phases.append(sizes(group.group.pids()))
        for rank, member in enumerate(members(framework, strategy, WORKERS, WORKERS)):
            found.append(
                {
                    "framework": framework,
                    "strategy": strategy,
                    "model": model,
                    "shape": shape,
                    "images": images,
                    "trained": fits,
                    "role": member.role,
                    "phases": [phase["VmHWM"][rank] for phase in phases],
                    "resident": phases[-1]["VmHWM"][rank],
                    "data": [phase["VmData"][rank] for phase in phases],
                }
            )
            say(str(found[-1]))
    return found


def sizes(pids: Sequence[int]) -> dict[str, list[int]]:
    """In bytes, of each process: its largest resident size so far, and its data now."""
    found: dict[str, list[int]] = {"VmHWM": [], "VmData": []}
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        for line in status.splitlines():
            name, _, value = line.partition(":")
            if name in found:
                found[name].append(KIB * int(value.split()[0]))
    return found


if __name__ == "__main__":
    benchmark(main, inside)
