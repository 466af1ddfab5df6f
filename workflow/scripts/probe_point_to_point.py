"""Probe an emulated link with messages between two hosts."""

from pathlib import Path

from ddlbench.errors import exit_on_error
from ddlbench.plan import PointToPoint, load
from ddlbench.probes.probe_tables import write_point_to_point
from ddlbench.runs.machine_lock import alone_on_this_machine

with exit_on_error(snakemake.log[0]):
    asked = snakemake.wildcards
    plan = load(snakemake.config, Path.cwd())
    with alone_on_this_machine(plan.settings.other_measurements):
        write_point_to_point(
            plan,
            PointToPoint(asked.link, float(asked.dilation), asked.transport),
            snakemake.output[:2],
            environment=next(map(Path, snakemake.input.environment), None),
            logs=Path(snakemake.log[0]).parent,
        )
