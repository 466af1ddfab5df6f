# What the models of a figure are made of: parameters, and operations of a forward pass. Nothing is measured.
rule count_models:
    input:
        environment=".environments/torch/environment.json",
        again=again_if_damaged(f"{RESULTS}/models/{{figure}}.csv"),
    output:
        f"{RESULTS}/models/{{figure}}.csv",
        f"{RESULTS}/models/{{figure}}.csv.prov.json",
    log:
        f"{LOGS}/models/{{figure}}.log",
    localrule: True
    params:
        code=lambda wildcards: code_for("count_models").sha256,
        models=lambda wildcards: sorted(PLAN.figures[wildcards.figure].published),
        image_shape=lambda wildcards: PLAN.figures[wildcards.figure].image_shape,
    script:
        "../scripts/count_models.py"
