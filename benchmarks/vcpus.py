"""A host of two vCPUs that are one core, against the same host with two cores: step times by ddlbench's own runs.

Both are a run of Snakemake: `dilation: auto` gives the host two cores and two threads, `dilation: 2` one core, whose
time is dilated by as much as two threads of this machine are faster than one. How much that is is a part of the run.
Cases are drawn at random from frameworks x models x batch sizes (`--seed`).
"""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from statistics import median
from typing import Any

from benchmarks.common import (
    ROOT,
    benchmark,
    in_words,
    options,
    repository,
    row,
    save,
    say,
    snakemake_s,
    spread,
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
FIGURE = "vcpus2026_step"
RECORDS = "results/store/[0-9a-f]*/*/*.json"

Case = tuple[str, str, int]


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, cases=12, repetitions=5, seed=1)
    if len(two_cores()) < 2:
        raise DdlbenchError("this benchmark needs two cores")
    cases = drawn(asked.cases, asked.seed)
    with repository(config=_config(asked.repetitions), study=_study(cases)) as folder:
        for what in ((), ("--config", "dilation=2")):
            took_s = snakemake_s(folder, "--cores", "2", FIGURE, *what, timeout_s=TIMEOUT_S, quiet=False)
            say(f"{' '.join(what) or 'two cores'}: {took_s:.0f} s")
        records = [json.loads(each.read_text()) for each in folder.glob(RECORDS)]
    of_cases = {case: compared(records, case) for case in cases}
    ratios = {case: median(each["ratios"]) for case, each in of_cases.items()}
    for case, each in of_cases.items():
        say(f"{in_words(spread(each['ratios']))}: {words(case)}, speed-up {each['speedup']:.3g}")
    worst = max(ratios, key=lambda case: abs(ratios[case] - 1))
    off = [100 * abs(each - 1) for each in ratios.values()]
    uncorrected = [100 * abs(ratios[case] * each["speedup"] / 2 - 1) for case, each in of_cases.items()]
    found = row(
        "a host of 2 vCPUs that are one core: step time against two cores",
        at_least=f"within {WITHIN_PERCENT} %",
        measured=f"{in_words(spread(of_cases[worst]['ratios']))}: {words(worst)}, the worst of {len(cases)}; half of "
        f"them within {median(off):.2g} %; {sum(each <= WITHIN_PERCENT for each in off)} within {WITHIN_PERCENT} %. If "
        f"the core counted as twice as fast: half within {median(uncorrected):.2g} %",
        peer=f"the same host with two threads on two cores, cases drawn with seed {asked.seed}, "
        f"n = {asked.repetitions} launches",
        met=max(off) <= WITHIN_PERCENT,
    )
    save("vcpus", [found], {"cases": {words(case): each for case, each in of_cases.items()}})


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


def compared(records: Sequence[Mapping[str, Any]], case: Case) -> dict[str, Any]:
    """The ratios of step times, one core to two, by repetitions; and the speed-up that the first was dilated by."""
    of_case = [
        each
        for each in records
        if tuple(each["point"][key] for key in ("framework", "model", "batch_size")) == case
    ]
    on_one = {each["repetition"]: each for each in of_case if each["threads"] == 1}
    on_two = {each["repetition"]: each for each in of_case if each["threads"] == 2}
    both = sorted(on_one.keys() & on_two.keys())
    if not both:
        raise DdlbenchError(f"{words(case)}: not measured on one core and on two")
    speed = on_one[both[0]]["vcpu_speed"]
    if "speedup" not in speed:
        raise DdlbenchError(f"{words(case)}: {speed['why_not']}")
    return {
        "ratios": [(step_time_ms(on_one[each]) or 0) / (step_time_ms(on_two[each]) or 1) for each in both],
        "speedup": speed["speedup"],
    }


def _config(repetitions: int) -> dict[str, object]:
    config: dict[str, Any] = dict(read_yaml(ROOT / "config" / "config.yaml", ROOT))
    measure = {**config["measure"], "min_repetitions": repetitions, "max_repetitions": repetitions}
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
