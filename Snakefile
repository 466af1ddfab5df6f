"""ddlbench: measurements of distributed deep learning that can be believed. Start with README.md."""

from snakemake.utils import min_version

min_version("9.20")


configfile: "config/config.yaml"


include: "workflow/rules/plan.smk"
include: "workflow/rules/targets.smk"
include: "workflow/rules/environments.smk"
include: "workflow/rules/datasets.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/figures.smk"


report: "workflow/report/workflow.rst"


onstart:
    announce(INVOCATION, [job.wildcards.run for job in workflow.persistence.dag.needrun_jobs() if job.rule.name == "measure"])
