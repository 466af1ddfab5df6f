# A run's points, measured by a living worker group; what the store has already is not measured again.
# It takes all cores: two measurements at once would disturb each other. A run that cannot be measured needs nothing.
rule measure:
    input:
        known=lambda wildcards: known(
            "run", f"{wildcards.study}/{wildcards.run}", [f"{run.study}/{run.id}" for run in PLAN.runs]
        ),
        environment=lambda wildcards: described_by(PLAN.measurable_points(wildcards.run)),
        datasets=lambda wildcards: sorted(
            {
                f"{RESULTS}/datasets/{point.dataset_key}.npz"
                for point in PLAN.measurable_points(wildcards.run)
            }
        ),
        again=again_if_damaged(
            f"{RESULTS}/runs/{{study}}/{{run}}.json",
            lambda manifest, wildcards: was_before_fresh(manifest, wildcards)
            or is_unfinished(manifest, PLAN, wildcards.run),
        ),
    output:
        f"{RESULTS}/runs/{{study}}/{{run}}.json",
        f"{RESULTS}/runs/{{study}}/{{run}}.json.prov.json",
    log:
        f"{LOGS}/runs/{{study}}/{{run}}/sweep.log",
    priority: lambda wildcards: order_of_measuring().get(wildcards.run, 0)
    threads: 1024  # as many as there are
    resources:
        slurm_extra=alone,
    params:
        code=lambda wildcards: code_of(PLAN.run(wildcards.run)).sha256,
        points=lambda wildcards: PLAN.run(wildcards.run).digest,
        reported=lambda wildcards: reported_of(PLAN.run(wildcards.run)),
        measure=lambda wildcards: as_params(PLAN.settings.measure),
        dilation=lambda wildcards: PLAN.settings.dilation,
        largest_group=lambda wildcards: PLAN.largest_group(PLAN.run(wildcards.run)),  # which decides the dilation
        gpus=lambda wildcards: gpus_for(PLAN.run(wildcards.run)),
    script:
        "../scripts/measure_run.py"


# The same between machines, which SLURM gives us: a job has as many nodes as the run has hosts, of what these have. In an
# allocation that Snakemake was started in, nothing is submitted and all runs share its nodes: one at a time, as above.
use rule measure as measure_on_nodes with:
    output:
        f"{RESULTS}/runs/{{study}}/{{run}}.json",
        f"{RESULTS}/runs/{{study}}/{{run}}.json.prov.json",
    wildcard_constraints:
        run="|".join(run.id for run in PLAN.runs if run.points[0].fabric in BETWEEN_MACHINES) or "none",
    threads: lambda wildcards: PLAN.run(wildcards.run).points[0].vcpus if SUBMITTING else 1024
    resources:
        **{key: request_for(key) for key in {*OF_THE_PLAN, *overridden(PLAN)}},
        slurm_extra=alone,
    params:
        code=lambda wildcards: code_of(PLAN.run(wildcards.run)).sha256,
        points=lambda wildcards: PLAN.run(wildcards.run).digest,
        reported=lambda wildcards: reported_of(PLAN.run(wildcards.run)),
        measure=lambda wildcards: as_params(PLAN.settings.measure),
        dilation=1,
        scheduler=SCHEDULER,


ruleorder: measure_on_nodes > measure
