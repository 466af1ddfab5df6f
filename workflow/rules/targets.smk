# What can be asked for by name. `all` comes first: it is what a bare `snakemake` makes.
rule all:
    input:
        expand("{results}/figures/{figure}.svg", results=RESULTS, figure=PLAN.default_figures),


rule all_figures:
    input:
        expand("{results}/figures/{figure}.svg", results=RESULTS, figure=list(PLAN.figures)),
