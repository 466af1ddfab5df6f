"""Write down what Docker or Apptainer is on this machine, or why it cannot start workers."""

import sys
from pathlib import Path

from ddlbench.containers.engines import describe_or_record
from ddlbench.errors import exit_on_error

with exit_on_error(snakemake.log[0]):
    if failure := describe_or_record(snakemake.wildcards.runtime, snakemake.output[0]):
        Path(snakemake.log[0]).write_text(f"{failure}\n")
        print(failure, file=sys.stderr)
