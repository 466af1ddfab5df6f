# What can be asked for by name; a bare `snakemake` makes `all`.
rule all:
    default_target: True
    input:
        expand("{results}/figures/{figure}.svg", results=RESULTS, figure=PLAN.default_figures),


rule all_figures:
    input:
        expand("{results}/figures/{figure}.svg", results=RESULTS, figure=list(PLAN.figures)),
