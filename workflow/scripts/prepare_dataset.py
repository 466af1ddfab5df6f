"""Prepare a data set: `digits-28x28x1` and the like."""

from datetime import UTC, datetime

from ddlbench.datasets import prepare
from ddlbench.errors import exit_on_error
from ddlbench.measurements.provenance import write_sidecar

with exit_on_error(snakemake.log[0]):
    started = datetime.now(UTC)
    name, shape = snakemake.wildcards.dataset.split("-")
    facts = prepare(name, snakemake.params.settings, snakemake.output[0], tuple(map(int, shape.split("x"))))
    write_sidecar(snakemake.output[0], made_by=snakemake.rule, inputs={}, parameters=facts, started=started)
