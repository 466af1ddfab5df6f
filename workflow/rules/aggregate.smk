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
    localrule: True
    conda:
        "../envs/driver.yaml"
    script:
        "../scripts/aggregate.py"


# That of a figure of telemetry: a row for each of a point's nodes and each interval between two samples.
rule telemetry_table:
    input:
        manifests=lambda wildcards: [
            f"{RESULTS}/runs/{run.study}/{run.id}.json" for run in PLAN.runs_of(wildcards.telemetry)
        ],
        code=modules.files(*modules.TABULATING_TELEMETRY),
    output:
        f"{RESULTS}/tables/{{telemetry}}.csv",
        f"{RESULTS}/tables/{{telemetry}}.csv.prov.json",
    log:
        "logs/tables/{telemetry}.log",
    localrule: True
    conda:
        "../envs/driver.yaml"
    script:
        "../scripts/tabulate_telemetry.py"
