"""Photograph the recommender's page with the answer to a question."""

from datetime import UTC, datetime
from pathlib import Path

from ddlbench.code.purposes import code_for
from ddlbench.errors import exit_on_error
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.recommender.screenshot import photograph

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    picture, _ = snakemake.output
    photograph(Path(snakemake.input.table), snakemake.params.question, Path(picture))
    write_sidecar(
        picture,
        made_by=snakemake.rule,
        inputs={"imported": [snakemake.input.table], "page": list(snakemake.input.page)},
        code=code_for("page"),
        started=started,
    )
