# Which points to measure for a decision: those that are expected to help it most, one after another, in one job. It takes
# all cores, as measuring does. Tables that are there already count; the store is the same.
rule recommend_measure:
    input:
        tables=tables_of_points(),
        environment=lambda wildcards: described_by(options()),
        datasets=lambda wildcards: sorted(
            {f"{RESULTS}/datasets/{point.dataset_key}.npz" for point in options()}
        ),
        again=again_if_damaged(f"{RESULTS}/recommendation.json", was_before_fresh),
    output:
        f"{RESULTS}/recommendation.json",
        f"{RESULTS}/recommendation.json.prov.json",
    log:
        f"{LOGS}/recommend/recommend.log",
    threads: 1024
    resources:
        slurm_extra=alone,
    params:
        code=lambda wildcards: code_for("recommend").sha256,
        asked=lambda wildcards: asdict(PLAN.settings.recommend),
        goal=lambda wildcards: asdict(goal()),
        measure=lambda wildcards: as_params(PLAN.settings.measure),
        points=lambda wildcards: sorted([point.id, run] for point, run in options().items()),
        dilation=PLAN.settings.dilation,
        gpus=lambda wildcards: max(gpus_for(PLAN.run(run)) for run in options().values()),
    script:
        "../scripts/measure_for_choice.py"
