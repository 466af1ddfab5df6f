"""Judge the papers' claims by the tables of figures."""

from datetime import UTC, datetime
from pathlib import Path

from ddlbench.claims.report import judge_files
from ddlbench.code.purposes import code_for
from ddlbench.errors import exit_on_error
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.runs.mending import require_sound

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    require_sound(snakemake.input.tables)
    table, page, _ = snakemake.output
    judge_files(
        [Path(file) for file in snakemake.input.claims],
        [Path(file) for file in snakemake.input.tables],
        Path(table),
        Path(page),
        snakemake.params.options,
    )
    write_sidecar(
        table,
        made_by=snakemake.rule,
        inputs={"table": list(snakemake.input.tables), "claims": list(snakemake.input.claims)},
        code=code_for("claims"),
        outputs=[page],
        started=started,
    )
