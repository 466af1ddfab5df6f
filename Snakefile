"""ddlbench: measurements of distributed deep learning that can be believed. Start with README.md."""

from snakemake.utils import min_version

min_version("9.20")


report: "workflow/report/workflow.rst"


include: "workflow/rules/plan.smk"


# Done where Snakemake runs, as is all that takes seconds (`localrule: True`), also where measuring is done by a cluster.
localrules:
    all,
    all_figures,
    all_images,
    all_probes,
    no_such_figure,


# A bare `snakemake` makes the figures that the configuration names; any other target is a figure's name.
rule all:
    input:
        expand("{results}/figures/{figure}.svg", results=RESULTS, figure=PLAN.default_figures),


rule all_figures:
    input:
        expand("{results}/figures/{figure}.svg", results=RESULTS, figure=list(PLAN.figures)),


# What looks like a figure's name and is none.
rule no_such_figure:
    input:
        lambda wildcards: no_such_figure(wildcards.name),
    output:
        "{name}",
    log:
        "logs/{name}.log",
    wildcard_constraints:
        name="[a-z]+[0-9]{4}_[A-Za-z0-9_]+",
    conda:
        "workflow/envs/driver.yaml"
    shell:
        "exit 1"


include: "workflow/rules/environments.smk"
include: "workflow/rules/containers.smk"
include: "workflow/rules/datasets.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/faults.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/figures.smk"
