"""Probe an emulated link with collectives among several hosts."""

from pathlib import Path

from ddlbench.errors import exit_on_error
from ddlbench.plan import Collectives, load
from ddlbench.probes.probe_tables import write_collectives
from ddlbench.runs.machine_lock import alone_on_this_machine

with exit_on_error(snakemake.log[0]):
    asked = snakemake.wildcards
    plan = load(snakemake.config, Path.cwd())
    with alone_on_this_machine(plan.settings.other_measurements):
        write_collectives(
            plan,
            Collectives(asked.link, int(asked.hosts), float(asked.dilation), asked.transport),
            snakemake.output[:1],
            environment=Path(snakemake.input.environment),
            logs=Path(snakemake.log[0]).parent,
        )
