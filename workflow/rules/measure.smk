# A run's points, measured by a living worker group; what the store has already is not measured again.
# It takes all cores: two measurements at once would disturb each other.
rule measure:
    input:
        environment=lambda wildcards: f".environments/{PLAN.run(wildcards.run).group['framework']}/environment.json",
        datasets=lambda wildcards: expand(
            "{results}/datasets/{dataset}.npz", results=RESULTS, dataset=PLAN.run(wildcards.run).datasets
        ),
        code=modules.files(*modules.MEASURING),
        fresh=FRESH,
    output:
        f"{RESULTS}/runs/{{study}}/{{run}}.json",
        f"{RESULTS}/runs/{{study}}/{{run}}.json.prov.json",
    log:
        "logs/runs/{study}/{run}.log",
    params:
        points=lambda wildcards: PLAN.run(wildcards.run).digest,
        measure=lambda wildcards: dict(sorted(PLAN.settings["measure"].items())),
    threads: workflow.cores
    script:
        "../scripts/measure_run.py"
