"""Make the table of a figure of telemetry from the last repetition of each of its points."""

from datetime import UTC, datetime

from ddlbench.code.purposes import code_for
from ddlbench.errors import exit_on_error
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.runs.mending import require_sound
from ddlbench.telemetry.table import tabulate, write_table

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    require_sound(snakemake.input.manifests)
    table, parts = tabulate(list(snakemake.input.manifests))
    write_table(table, snakemake.output[0])
    inputs = {
        "manifest": list(snakemake.input.manifests),
        "telemetry": parts,
    }
    code = code_for(snakemake.rule)
    write_sidecar(snakemake.output[0], made_by=snakemake.rule, inputs=inputs, code=code, started=started)
