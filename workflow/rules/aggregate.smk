# The table that a figure is drawn from: a row a point, medians and intervals over repetitions.
rule table:
    input:
        manifests=lambda wildcards: [
            f"{RESULTS}/runs/{run.study}/{run.id}.json" for run in PLAN.runs_of(wildcards.figure)
        ],
        code=modules.files(*modules.TABULATING),
    output:
        f"{RESULTS}/tables/{{figure}}.csv",
        f"{RESULTS}/tables/{{figure}}.csv.prov.json",
    log:
        "logs/tables/{figure}.log",
    conda:
        "../envs/driver.yaml"
    script:
        "../scripts/aggregate.py"
