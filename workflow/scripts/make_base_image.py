"""Have the image that all others begin with, or write down why there is none."""

from functools import partial
from pathlib import Path

from ddlbench.containers.base_image import make_base
from ddlbench.containers.image_files import write_description
from ddlbench.errors import exit_on_error

with exit_on_error(snakemake.log[0]):
    write_description(
        Path(snakemake.output[0]),
        partial(make_base, snakemake.params.base),
        made_by=snakemake.rule,
        inputs={},
        parameters={"base": snakemake.params.base},
        log=Path(snakemake.log[0]),
    )
