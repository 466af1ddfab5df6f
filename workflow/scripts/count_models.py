"""Count what a figure's models are made of."""

from datetime import UTC, datetime
from pathlib import Path

from ddlbench.code.purposes import code_for
from ddlbench.errors import exit_on_error
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.probes.model_counts import write_counts

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    asked, environment = snakemake.params, Path(snakemake.input.environment)
    write_counts(asked.models, asked.image_shape, snakemake.output[0], environment=environment)
    write_sidecar(
        snakemake.output[0],
        made_by=snakemake.rule,
        inputs={"environment": environment},
        code=code_for(snakemake.rule),
        started=started,
    )
