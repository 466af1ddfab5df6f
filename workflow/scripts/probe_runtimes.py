"""Probe the network inside each runtime."""

from pathlib import Path

from ddlbench.environments.materials import Materials, files_of
from ddlbench.errors import exit_on_error
from ddlbench.plan import load
from ddlbench.plan.catalogue import NAMES
from ddlbench.probes.runtime_probe import write_runtimes

with exit_on_error(snakemake.log[0]):
    write_runtimes(
        load(snakemake.config, Path.cwd()),
        Materials({runtime: files_of("torch", runtime) for runtime in NAMES["runtime"]}, {}),
        snakemake.output[0],
        logs=Path(snakemake.log[0]).parent,
    )
