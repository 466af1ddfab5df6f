# The table that a figure is drawn from: a row a point, medians and intervals over repetitions.
rule table:
    input:
        manifests=lambda wildcards: manifests_of(wildcards.figure),
        again=again_if_damaged(
            f"{RESULTS}/tables/{{figure}}.csv",
            lambda table, wildcards: has_lost(manifests_of(wildcards.figure)),
        ),
    output:
        f"{RESULTS}/tables/{{figure}}.csv",
        f"{RESULTS}/tables/{{figure}}.csv.prov.json",
    log:
        f"{LOGS}/tables/{{figure}}.log",
    priority: FIRST
    localrule: True
    params:
        code=lambda wildcards: code_for("table").sha256,
    script:
        "../scripts/aggregate.py"


# That of a figure of telemetry: a row for each of a point's nodes and each interval between two samples.
rule telemetry_table:
    input:
        manifests=lambda wildcards: manifests_of(wildcards.telemetry),
        again=again_if_damaged(
            f"{RESULTS}/tables/{{telemetry}}.csv",
            lambda table, wildcards: has_lost(manifests_of(wildcards.telemetry)),
        ),
    output:
        f"{RESULTS}/tables/{{telemetry}}.csv",
        f"{RESULTS}/tables/{{telemetry}}.csv.prov.json",
    log:
        f"{LOGS}/tables/{{telemetry}}.log",
    priority: FIRST
    localrule: True
    params:
        code=lambda wildcards: code_for("telemetry_table").sha256,
    script:
        "../scripts/tabulate_telemetry.py"
