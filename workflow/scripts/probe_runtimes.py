"""Probe the network inside each runtime."""

from pathlib import Path

from ddlbench.environments.materials import Materials, files_of
from ddlbench.errors import exit_on_error
from ddlbench.plan import load
from ddlbench.plan.catalogue import NAMES
from ddlbench.probes.runtime_probe import write_runtimes
from ddlbench.runs.machine_lock import alone_on_this_machine

with exit_on_error(snakemake.log[0]):
    plan = load(snakemake.config, Path.cwd())
    materials = Materials({runtime: files_of("torch", runtime) for runtime in NAMES["runtime"]}, {})
    with alone_on_this_machine(plan.settings.other_measurements):
        write_runtimes(plan, materials, snakemake.output[0], logs=Path(snakemake.log[0]).parent)
