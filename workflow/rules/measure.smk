# A run's points, measured by a living worker group; what the store has already is not measured again.
# It takes all cores: two measurements at once would disturb each other. A run that cannot be measured needs nothing.
rule measure:
    input:
        environment=lambda wildcards: sorted(
            {
                f".environments/{point.framework}/environment.json"
                for point in PLAN.measurable_points(wildcards.run)
            }
        ),
        datasets=lambda wildcards: sorted(
            {
                f"{RESULTS}/datasets/{point.dataset_key}.npz"
                for point in PLAN.measurable_points(wildcards.run)
            }
        ),
        code=modules.files(*modules.MEASURING),
        fresh=FRESH,
    output:
        f"{RESULTS}/runs/{{study}}/{{run}}.json",
        f"{RESULTS}/runs/{{study}}/{{run}}.json.prov.json",
    log:
        "logs/runs/{study}/{run}/sweep.log",
    conda:
        "../envs/driver.yaml"
    threads: 1024  # as many as there are
    params:
        points=lambda wildcards: PLAN.run(wildcards.run).digest,
        measure=lambda wildcards: dict(sorted(PLAN.settings["measure"].items())),
        dilation=lambda wildcards: PLAN.settings["dilation"],
    script:
        "../scripts/measure_run.py"


# What cannot be placed on this machine is refused before any job starts. The jobs of one invocation share their worker
# groups; so they must know which runs it wants.
onstart:
    wanted = [
        job.wildcards.run for job in workflow.persistence.dag.needrun_jobs() if job.rule.name == "measure"
    ]
    try:
        check_placements(PLAN, wanted)
    except DdlbenchError as error:
        raise WorkflowError(str(error))
    announce(INVOCATION, wanted)
