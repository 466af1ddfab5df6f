"""Kill members of worker groups in the middle of a training."""

from pathlib import Path

from ddlbench.environments.materials import Materials, description_files
from ddlbench.errors import exit_on_error
from ddlbench.plan import load
from ddlbench.runs.faults import write_faults
from ddlbench.runs.machine_lock import alone_on_this_machine

with exit_on_error(snakemake.log[0]):
    plan = load(snakemake.config, Path.cwd(), gpus=snakemake.params.gpus)
    fault = plan.faults[snakemake.wildcards.fault]
    materials = Materials(
        environments=description_files([fault.point] if snakemake.input.environment else []),
        datasets={Path(path).stem: Path(path) for path in snakemake.input.datasets},
    )
    with alone_on_this_machine(plan.settings.other_measurements):
        write_faults(plan, fault, snakemake.output[0], materials, logs=Path(snakemake.log[0]).parent)
