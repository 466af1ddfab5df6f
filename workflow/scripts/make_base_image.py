"""Have the image that all others begin with, or write down why there is none."""

from functools import partial
from pathlib import Path

from ddlbench.errors import told_in_words
from ddlbench.runtime.base_image import make_base
from ddlbench.runtime.image_files import write_description

with told_in_words(snakemake.log[0]):
    write_description(
        Path(snakemake.output[0]),
        partial(make_base, snakemake.params.base),
        made_by=snakemake.rule,
        inputs={},
        parameters={"base": snakemake.params.base},
        log=Path(snakemake.log[0]),
    )
