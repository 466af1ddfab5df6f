"""Create a framework's virtual environment from its locked requirements."""

from pathlib import Path

from ddlbench.errors import told_in_words
from ddlbench.runtime.environment import create

with told_in_words(snakemake.log[0]):
    create(Path(snakemake.input.requirements), Path(snakemake.output[0]).parent)
