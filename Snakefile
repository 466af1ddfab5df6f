"""ddlbench: measurements of distributed deep learning that can be believed. Start with README.md."""

from snakemake.utils import min_version

min_version("9.20")


report: "workflow/report/workflow.rst"


include: "workflow/rules/plan.smk"
include: "workflow/rules/again.smk"
include: "workflow/rules/invocation.smk"


# These run where Snakemake runs, like all that takes seconds, also where a cluster does the measuring.
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


include: "workflow/rules/environments.smk"
include: "workflow/rules/containers.smk"
include: "workflow/rules/datasets.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/faults.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/page.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/recommend.smk"
