"""Measure what is missing of a run and write its manifest."""

from pathlib import Path

from ddlbench.errors import told_in_words
from ddlbench.plan import load
from ddlbench.runtime.sweep import Materials, measure_run

with told_in_words(snakemake.log[0]):
    measure_run(
        load(snakemake.config, Path.cwd()),
        snakemake.wildcards.run,
        Materials(
            environment=next(map(Path, snakemake.input.environment), None),
            datasets={Path(path).stem: Path(path) for path in snakemake.input.datasets},
        ),
        manifest=Path(snakemake.output[0]),
        logs=Path(snakemake.log[0]).parent,
    )
