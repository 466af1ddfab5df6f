"""Write the archive of all results."""

from datetime import UTC, datetime
from pathlib import Path

from ddlbench.code.purposes import code_for
from ddlbench.errors import exit_on_error
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.report.crate import Run, write_archive
from ddlbench.runs.mending import require_sound

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    require_sound([snakemake.input.page])
    run = Run(
        snakemake.input.page,
        sorted(snakemake.input.results),
        [Path(file) for file in snakemake.params.configurations],
    )
    write_archive(Path(snakemake.output[0]), run, Path.cwd())
    write_sidecar(
        snakemake.output[0],
        made_by=snakemake.rule,
        inputs={"report": snakemake.input.page},
        code=code_for("archive"),
        started=started,
    )
