"""A host of two vCPUs that are one core, against the same host with two cores: step times by ddlbench's own runs.

Both are a run of Snakemake: `dilation: auto` gives the host two cores and two threads, `dilation: 2` one core, whose
time is dilated by as much as two threads of this machine are faster than one. How much that is is a part of the run.
Runs take turns, because launches of one run are more alike than runs are: by a fifth where steps are short. Cases are
drawn at random from frameworks x models x batch sizes (`--seed`). The worst one is written to
`config/emulation_error.json`.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from math import nan
from random import Random
from statistics import mean, median
from typing import Any

from benchmarks.common import (
    ROOT,
    benchmark,
    in_words,
    keep_worst_cases,
    options,
    repository,
    row,
    save,
    say,
    snakemake_s,
    spread,
    worst_case,
)
from benchmarks.groups import two_cores
from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.errors import DdlbenchError
from ddlbench.measurements.record import step_time_ms

FRAMEWORKS = ("torch", "tensorflow", "horovod_torch")
MODELS = ("mlp", "conv1", "conv2", "cnn", "keras_sequential")
BATCH_SIZES = (32, 64, 128, 256, 512)
WITHIN_PERCENT = 7
TIMEOUT_S = 1200.0
REPETITIONS = 3  # of a run
FIGURE = "vcpus2026_step"
RECORDS = "results/store/[0-9a-f]*/*/*.json"

Case = tuple[str, str, int]


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, cases=12, turns=5, seed=1)
    two_cores()
    cases, order = drawn(asked.cases, asked.seed), Random(asked.seed)
    turns: dict[Case, list[dict[str, float]]] = {case: [] for case in cases}
    for number in range(1, asked.turns + 1):
        with repository(config=_config(), study=_study(cases)) as folder:
            for what in order.sample([(), ("--config", "dilation=2")], 2):
                snakemake_s(folder, "--cores", "2", FIGURE, *what, timeout_s=TIMEOUT_S)
            records = [json.loads(each.read_text()) for each in folder.glob(RECORDS)]
        for case in cases:
            turns[case].append(compared(records, case))
        say(
            f"turn {number} of {asked.turns}: "
            + ", ".join(f"{each[-1]['ratio']:.3f}" for each in turns.values())
        )
    ratios = {case: median(each["ratio"] for each in of_case) for case, of_case in turns.items()}
    for case, of_case in turns.items():
        found = spread([each["ratio"] for each in of_case])
        say(
            f"{in_words(found)}: {words(case)}, speed-up {in_words(spread([each['speedup'] for each in of_case]))}"
        )
    worst = max(ratios, key=lambda case: abs(ratios[case] - 1))
    off = [100 * abs(each - 1) for each in ratios.values()]
    uncorrected = [
        100 * abs(median(each["ratio"] * each["speedup"] / 2 for each in of_case) - 1)
        for of_case in turns.values()
    ]
    worst_of = in_words(spread([each["ratio"] for each in turns[worst]]))
    near = sum(each <= WITHIN_PERCENT for each in off)
    judged = row(
        "a host of 2 vCPUs that are one core: step time against two cores",
        at_least=f"within {WITHIN_PERCENT} %",
        measured=f"{worst_of}: {words(worst)}, the worst of {len(cases)}; half of them within {median(off):.2g} %, "
        f"{near} within {WITHIN_PERCENT} %; if the core counted as twice as fast: half within "
        f"{median(uncorrected):.2g} %",
        peer=f"the same host with two threads on two cores, cases drawn with seed {asked.seed}, "
        f"n = {asked.turns} runs of each",
        met=max(off) <= WITHIN_PERCENT,
    )
    save("vcpus", [judged], {"cases": {words(case): of_case for case, of_case in turns.items()}})
    keep_worst_cases([worst_case("vcpus", 2, max(off), len(cases))])


def drawn(count: int, seed: int) -> list[Case]:
    """Draw cases, each framework as often as the others.

    Args:
        count: how many.
        seed: of the draw.

    Returns:
        Framework, model and batch size of each.
    """
    random = Random(seed)
    found: list[Case] = []
    for number, framework in enumerate(random.sample(FRAMEWORKS, len(FRAMEWORKS))):
        all_of_it = [(framework, *each) for each in product(MODELS, BATCH_SIZES)]
        found += random.sample(all_of_it, len(range(number, count, len(FRAMEWORKS))))
    return found


def words(case: Case) -> str:
    """`torch, mlp, batch 128`."""
    framework, model, batch_size = case
    return f"{framework}, {model}, batch {batch_size}"


def compared(records: Sequence[Mapping[str, Any]], case: Case) -> dict[str, float]:
    """The ratio of the step times of a turn, one core to two, and the speed-up that the first was dilated by."""
    of_case = [
        each
        for each in records
        if tuple(each["point"][key] for key in ("framework", "model", "batch_size")) == case
    ]
    one, two = (
        [each for each in of_case if each["threads"] == threads and each["status"] == "measured"]
        for threads in (1, 2)
    )
    if not one or not two:
        raise DdlbenchError(f"{words(case)}: not measured on one core and on two")
    speed = one[0]["vcpu_speed"]
    if "speedup" not in speed:
        raise DdlbenchError(f"{words(case)}: {speed['why_not']}")
    time_ms, true_ms = (mean(step_time_ms(each) or nan for each in of_cores) for of_cores in (one, two))
    return {"ratio": time_ms / true_ms, "step_ms": time_ms, "true_ms": true_ms, "speedup": speed["speedup"]}


def _config() -> dict[str, object]:
    config: dict[str, Any] = dict(read_yaml(ROOT / "config" / "config.yaml", ROOT))
    measure = {**config["measure"], "min_repetitions": REPETITIONS, "max_repetitions": REPETITIONS}
    return {
        **config,
        "measure": measure,
        "studies": ["vcpus2026"],
        "default_figures": [FIGURE],
        "grids": {},
    }


def _study(cases: Sequence[Case]) -> dict[str, object]:
    grids = {
        f"case{number}": {
            "hosts": "machine",
            "workers": 1,
            "framework": framework,
            "model": model,
            "dataset": "digits",
            "batch_size": batch_size,
            "link": "lan-2g",
            "report": {"epoch_images": 60000, "epochs": 1},
        }
        for number, (framework, model, batch_size) in enumerate(cases, 1)
    }
    return {
        "key": "vcpus2026",
        "title": "a host of two vCPUs",
        "paper": {"authors": "nobody", "title": "nothing", "year": 2026},
        "hosts": {"machine": {"count": 1, "vcpus": 2, "memory_gb": 2}},
        "grids": grids,
        "figures": {
            FIGURE: {
                "grids": list(grids),
                "title": "Step time",
                "x": "batch_size",
                "y": "step_time_ms",
                "lines": "model",
                "category": "Machines",
                "caption": "There is no paper.",
            }
        },
    }


if __name__ == "__main__":
    benchmark(main)
