"""Seconds of `snakemake -n` on a generated study of 10,000 points, against a plain Snakefile with one job a point."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
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
from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.plan import load

MODELS = ("mlp", "conv1", "conv2", "cnn", "keras_sequential")
AT_MOST_S = 8.0
TIMEOUT_S = 600

PLAIN = """
import json
POINTS = json.load(open("points.json"))

rule all:
    input: "results/table.csv"

rule table:
    input: expand("results/points/{point}.json", point=POINTS)
    output: "results/table.csv"
    shell: "cat {input} > {output}"

rule point:
    output: "results/points/{point}.json"
    shell: "measure {wildcards.point} > {output}"
"""


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, rounds=3, bandwidths=20)
    ours_s, theirs_s = [], []
    config, study = generated(asked.bandwidths)
    with repository(config=config, study=study) as folder, TemporaryDirectory(prefix="ddlbench-") as plain:
        points = [point.id for run in load(config, folder).runs for point in run.points]
        (Path(plain) / "Snakefile").write_text(PLAIN)
        (Path(plain) / "points.json").write_text(json.dumps(points))
        for number in range(1, asked.rounds + 1):
            ours_s.append(snakemake_s(folder, "-n", timeout_s=TIMEOUT_S))
            theirs_s.append(snakemake_s(Path(plain), "-n", timeout_s=TIMEOUT_S))
            say(f"round {number} of {asked.rounds}: {ours_s[-1]:.1f} s, plain {theirs_s[-1]:.1f} s")
    ours, theirs = spread(ours_s), spread(theirs_s)
    ratio = spread([b / a for a, b in zip(ours_s, theirs_s, strict=True)])
    rows = [
        row(
            f"`snakemake -n` on a generated study of {len(points):,} points",
            at_least=f"under {AT_MOST_S:g} s",
            measured=f"{in_words(ours, ' s')}, {in_words(ratio)} times faster",
            peer=f"a plain Snakefile with one job a point: {in_words(theirs, ' s')}",
            met=ours["median"] < AT_MOST_S,
        )
    ]
    save("dry_run", rows, {"points": len(points), "ours_s": ours_s, "theirs_s": theirs_s, "ratio": ratio})


def generated(bandwidths: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A configuration, and its study of 500 points times `bandwidths`: a grid and a figure a model."""
    grid = {
        "hosts": "many",
        "dataset": "digits",
        "link": "gigabit",
        "workers": [2, 3, 4, 6, 8],
        "batch_size": [32, 64, 128, 256],
        "latency_ms": [0, 10, 20, 50, 100],
        "bandwidth_mbit": [100 * number for number in range(1, bandwidths + 1)],
        "report": {"epoch_images": 60000, "epochs": 1},
    }
    figure = {
        "title": "a generated figure",
        "category": "Generated",
        "caption": "Nobody has seen it.",
        "x": "bandwidth_mbit",
        "y": "training_time_s",
        "lines": "workers",
    }
    study = {
        "key": "generated",
        "title": "a generated study",
        "paper": {"authors": "nobody", "title": "nothing", "year": 2000},
        "hosts": {"many": {"count": 8, "vcpus": 1, "memory_gb": 1}},
        "grids": {model: {**grid, "model": model} for model in MODELS},
        "figures": {f"generated_{model}": {**figure, "grids": [model]} for model in MODELS},
    }
    config = read_yaml(ROOT / "config" / "config.yaml", ROOT)
    return {**config, "studies": ["generated"], "grids": {}, "default_figures": list(study["figures"])}, study


if __name__ == "__main__":
    benchmark(main)
