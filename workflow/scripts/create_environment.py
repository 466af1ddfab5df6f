"""Create a framework's virtual environment from its locked requirements, or write down why that cannot be done."""

import sys
from pathlib import Path

from ddlbench.environments.environment import IMPORTS
from ddlbench.environments.failed_environments import create_or_record
from ddlbench.errors import exit_on_error
from ddlbench.system.processes import die_with_parent

die_with_parent()  # what it builds in place is the next start's to remove and to make
with exit_on_error(snakemake.log[0]):
    target = Path(snakemake.output[0]).parent
    failure = create_or_record(snakemake.input.requirements, target, imports=IMPORTS[target.name])
    if failure:
        Path(snakemake.log[0]).write_text(f"{failure}\n")
        print(failure, file=sys.stderr)
