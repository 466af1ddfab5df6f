"""Measure what is missing of a run and write its manifest."""

from pathlib import Path

from ddlbench.environments.materials import Materials, description_files
from ddlbench.errors import exit_on_error
from ddlbench.plan import load
from ddlbench.runs.invocation import stamped
from ddlbench.runs.measure_run import measure_run

with exit_on_error(snakemake.log[0]):
    here = snakemake.params
    plan = load(snakemake.config, Path.cwd(), scheduler=here.get("scheduler"), gpus=here.get("gpus", 0))
    manifest = Path(snakemake.output[0])
    measure_run(
        plan,
        snakemake.wildcards.run,
        Materials(
            environments=description_files(plan.measurable_points(snakemake.wildcards.run)),
            datasets={Path(path).stem: Path(path) for path in snakemake.input.datasets},
        ),
        manifest=manifest,
        logs=Path(snakemake.log[0]).parent,
        since=stamped(manifest, Path(plan.settings.own_results)),
    )
