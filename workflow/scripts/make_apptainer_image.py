"""Make a framework's image for Apptainer of the one that Docker has, or write down why that cannot be done."""

from functools import partial
from pathlib import Path

from ddlbench.containers.image_files import write_description
from ddlbench.containers.sif import make_sif
from ddlbench.errors import exit_on_error

output, image = Path(snakemake.output[0]), Path(snakemake.input.image)
with exit_on_error(snakemake.log[0]):
    write_description(
        output,
        partial(make_sif, image, output.with_name(f"{output.parent.name}.sif")),
        made_by=snakemake.rule,
        inputs={"image": image},
        parameters={},
        log=Path(snakemake.log[0]),
    )
