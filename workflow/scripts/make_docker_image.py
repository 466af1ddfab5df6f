"""Build a framework's image for Docker, or write down why that cannot be done."""

from functools import partial
from pathlib import Path

from ddlbench.containers.image import make_image
from ddlbench.containers.image_files import write_description
from ddlbench.errors import exit_on_error

files = snakemake.input
with exit_on_error(snakemake.log[0]):
    write_description(
        Path(snakemake.output[0]),
        partial(
            make_image,
            Path(files.dockerfile),
            Path(files.requirements),
            base=Path(files.base),
            bare=files.bare,
        ),
        made_by=snakemake.rule,
        inputs={
            "dockerfile": files.dockerfile,
            "requirements": files.requirements,
            "recipe": list(files.recipe),
            "base": files.base,
            "environment": list(files.bare),
        },
        parameters={},
        log=Path(snakemake.log[0]),
    )
