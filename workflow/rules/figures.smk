# One rule a figure, by its name: `snakemake --cores 4 zhao2016_fig5`.
for figure in PLAN.figures.values():

    rule:
        name:
            figure.name
        input:
            table=[f"{RESULTS}/{table}" for table in figure.tables],
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
            f"logs/figures/{figure.name}.log",
        localrule: True
        conda:
            "../envs/driver.yaml"
        params:
            figure=figure.name,
            code=code_for(f"figures {figure.study}").sha256,
        script:
            "../scripts/draw_figure.py"
