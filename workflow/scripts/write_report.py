"""Write the page of all results."""

from datetime import UTC, datetime
from pathlib import Path

from ddlbench.code.purposes import code_for
from ddlbench.errors import exit_on_error
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.plan import load
from ddlbench.report.page import write_page
from ddlbench.runs.mending import require_sound

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    made_from = snakemake.input
    require_sound([*made_from.figures, *made_from.tables, made_from.claims])
    write_page(
        Path(snakemake.output[0]),
        load(snakemake.config, Path.cwd()),
        [Path(file) for file in made_from.figures],
        [Path(file) for file in made_from.tables],
        Path(made_from.claims),
        Path.cwd(),
    )
    write_sidecar(
        snakemake.output[0],
        made_by=snakemake.rule,
        inputs={
            "figure": list(made_from.figures),
            "table": list(made_from.tables),
            "claims": made_from.claims,
        },
        code=code_for("report"),
        started=started,
    )
