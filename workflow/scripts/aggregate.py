"""Make the table of a figure from the measurements of its runs."""

from datetime import UTC, datetime

from ddlbench.code.purposes import code_for
from ddlbench.errors import exit_on_error
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.measurements.tables import aggregate, write_table
from ddlbench.runs.mending import require_sound

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    require_sound(snakemake.input.manifests)
    write_table(aggregate(list(snakemake.input.manifests)), snakemake.output[0])
    write_sidecar(
        snakemake.output[0],
        made_by=snakemake.rule,
        inputs={"manifest": list(snakemake.input.manifests)},
        code=code_for(snakemake.rule),
        started=started,
    )
