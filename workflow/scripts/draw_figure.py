"""Draw a figure from its table."""

from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from ddlbench.code.purposes import code_for
from ddlbench.errors import exit_on_error
from ddlbench.figures import draw
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.plan import load
from ddlbench.runs.mending import require_sound

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    require_sound(snakemake.input.table)
    figure = load(snakemake.config, Path.cwd()).figures[snakemake.params.figure]
    draw(figure.name, [pd.read_csv(table) for table in snakemake.input.table], figure, snakemake.output)
    svg, *others, _ = snakemake.output
    write_sidecar(
        svg,
        made_by=snakemake.rule,
        inputs={"table": list(snakemake.input.table)},
        code=code_for(f"figures {figure.study}"),
        outputs=others,
        started=started,
    )
