"""Images per second of our workers against a plain script of their framework: same model, batch, hosts, link, data.

Both are alive at the same time on the same two hosts, and train in turns of a fraction of a second, the first one of
each pair alternating; a round launches both anew. A pair's ratio is plain step time by our step time (means, slowest
rank), as both scripts time their own steps; each drops its first step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import (
    benchmark,
    digits,
    in_sandbox,
    in_words,
    options,
    python_of_workers,
    row,
    save,
    say,
    spread,
)
from benchmarks.groups import Ours, hosts_on, ours, star_of, steps_for, two_cores
from benchmarks.plain_groups import Plain, plain
from ddlbench.network.link import Link
from ddlbench.plan.catalogue import FRAMEWORKS

SYSTEMS = {  # one of PLAIN -> framework, strategy, and what its plain script is
    "torch": ("torch", "ring_allreduce", "a plain DDP script of 40 lines under torchrun"),
    "torch_parameter_server": (
        "torch",
        "parameter_server_sync",
        "a plain RPC script as in PyTorch's tutorials",
    ),
    "tensorflow": ("tensorflow", "ring_allreduce", "a plain MultiWorkerMirroredStrategy script of 40 lines"),
    "mxnet": ("mxnet", "parameter_server_sync", "a plain Gluon script of 40 lines with DMLC_ROLE"),
    "horovod_torch": ("horovod_torch", "ring_allreduce", "Horovod's example for PyTorch, in 40 lines"),
    "horovod_tensorflow": (
        "horovod_tensorflow",
        "ring_allreduce",
        "Horovod's example for TensorFlow, in 40 lines",
    ),
}
MODELS = ("mlp", "conv2", "keras_sequential")
BATCH_SIZE = 128
LINK = Link(1000)
AT_LEAST = 0.98


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, systems=",".join(SYSTEMS), rounds=5, pairs=20, block_s=0.4)
    rows, details = [], {}
    for system in asked.systems.split(","):
        framework, strategy, script = SYSTEMS[system]
        with TemporaryDirectory(prefix="ddlbench-") as folder:
            environment = FRAMEWORKS[framework].environment
            job = {
                **vars(asked),
                "system": system,
                "python": python_of_workers(environment),
                "dataset": digits(Path(folder)),
            }
            pairs = in_sandbox(
                "benchmarks.worker", job, timeout_s=asked.rounds * (240 + 12 * asked.pairs * asked.block_s)
            )
        ratios = {
            model: spread([median(each["ratio"] for each in found) for found in pairs[model]])
            for model in MODELS
        }
        worst = min(ratios, key=lambda model: ratios[model]["median"])
        rows.append(
            row(
                f"images/s of our {framework} worker, {strategy.replace('_', ' ')} ({', '.join(MODELS)}; "
                f"the slowest, {worst})",
                at_least=f"{AT_LEAST}",
                measured=in_words(ratios[worst]),
                peer=f"{script}, 2 hosts, {LINK}, batch {BATCH_SIZE}",
                met=ratios[worst]["median"] >= AT_LEAST,
            )
        )
        details[system] = {"ratios": ratios, "pairs": pairs}
    save(
        "worker",
        rows,
        {"systems": details, "link": asdict(LINK), "batch_size": BATCH_SIZE, "asked": vars(asked)},
    )


def inside(job: dict[str, Any]) -> dict[str, list[list[dict[str, float]]]]:
    """For each model, for each round, all pairs: images/s of both, and the ratio."""
    placement = hosts_on(two_cores())
    found: dict[str, list[list[dict[str, float]]]] = {model: [] for model in MODELS}
    port = 29600
    common = {"python": job["python"], "dataset": job["dataset"]}
    system = job["system"]
    framework, strategy, _ = SYSTEMS[system]
    for number in range(1, job["rounds"] + 1):
        with star_of(placement) as star:
            star.shape(LINK)
            group = ours(star, placement, models=MODELS, framework=framework, strategy=strategy, **common)
            with group as our_group:
                for model in MODELS:
                    port += 1
                    script = plain(
                        system, star, placement, model=model, batch_size=BATCH_SIZE, port=port, **common
                    )
                    with script as theirs:
                        found[model].append(list(_pairs(our_group, theirs, model, job)))
                    ratio = median(each["ratio"] for each in found[model][-1])
                    say(f"{system}: round {number} of {job['rounds']}: {model}: {ratio:.3f}")
    return found


def _pairs(our_group: Ours, script: Plain, model: str, job: dict[str, Any]) -> Iterator[dict[str, float]]:
    script.step_times_ms(5)
    steps = steps_for(job["block_s"], our_group.step_times_ms(model, BATCH_SIZE, 10))

    def our_ms() -> float:
        return mean(our_group.step_times_ms(model, BATCH_SIZE, steps + 1)[1:])

    def plain_ms() -> float:
        return mean(script.step_times_ms(steps + 1)[1:])

    for turn in range(job["pairs"]):
        if turn % 2:
            theirs, mine = plain_ms(), our_ms()
        else:
            mine, theirs = our_ms(), plain_ms()
        yield {
            "ours_images_per_s": BATCH_SIZE * 1000 / mine,
            "plain_images_per_s": BATCH_SIZE * 1000 / theirs,
            "ratio": theirs / mine,
        }


if __name__ == "__main__":
    benchmark(main, inside)
