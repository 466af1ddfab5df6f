# A data set as arrays in one file, checked against its checksum before each use.
rule dataset:
    input:
        lambda wildcards: known("data set", wildcards.dataset, PLAN.dataset_keys),
        again=again_if_damaged(f"{RESULTS}/datasets/{{dataset}}.npz"),
    output:
        f"{RESULTS}/datasets/{{dataset}}.npz",
        f"{RESULTS}/datasets/{{dataset}}.npz.prov.json",
    log:
        f"{LOGS}/datasets/{{dataset}}.log",
    priority: FIRST  # before any run is measured, so that one worker group can serve several data sets
    localrule: True
    params:
        settings=lambda wildcards: asdict(PLAN.settings.datasets.source(wildcards.dataset.split("-")[0])),
    script:
        "../scripts/prepare_dataset.py"
