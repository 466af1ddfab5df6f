# One rule a figure, by its name: `snakemake --cores 4 zhao2016_fig5`.
for figure in PLAN.figures.values():

    rule:
        name:
            figure.name
        input:
            table=tables_of(figure),
            again=again_if_damaged(
                f"{RESULTS}/figures/{figure.name}.svg",
                lambda drawn, wildcards, tables=tables_of(figure): has_lost(tables),
            ),
        output:
            report(
                f"{RESULTS}/figures/{figure.name}.svg",
                caption="../report/figure.rst",
                category=figure.category,
                labels={"figure": figure.name, "title": figure.title},
            ),
            multiext(
                f"{RESULTS}/figures/{figure.name}", ".pdf", ".png", ".csv", ".caption.rst", ".svg.prov.json"
            ),
        log:
            f"{LOGS}/figures/{figure.name}.log",
        priority: FIRST
        localrule: True
        params:
            figure=figure.name,
            asked=sha256_json(asdict(figure)),
            code=code_for(f"figures {figure.study}").sha256,
        script:
            "../scripts/draw_figure.py"


# What looks like a figure's name and is none, or a figure without any point.
rule no_such_figure:
    input:
        lambda wildcards: refused(PLAN.no_figure(wildcards.name)),
    output:
        "{name}",
    log:
        "logs/{name}.log",
    wildcard_constraints:
        name="[a-z]+[0-9]{4}_[A-Za-z0-9_]+",
    shell:
        "exit 1"
