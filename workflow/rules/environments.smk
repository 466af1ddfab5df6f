# A framework's own virtual environment, made on demand by the first run that needs it. Where it cannot be made, its record
# says why: the runs that need it are gaps, everything else goes on, and the next start tries again.
rule environment:
    input:
        requirements=requirements,
        recipe=lambda wildcards: recipe_files(requirements(wildcards)),
        again=again_if(is_unusable, ".environments/{environment}/environment.json"),
    output:
        ".environments/{environment}/environment.json",
    log:
        "logs/environments/{environment}.log",
    localrule: True
    threads: 1  # as pip: two environments at once on two cores. Building Horovod takes them all, for minutes, once
    script:
        "../scripts/create_environment.py"


# Docker or Apptainer on this machine, or why workers cannot be started with it, which is told as above.
rule runtime:
    input:
        again=again_if(has_failed, ".environments/{runtime}/environment.json"),
    output:
        ".environments/{runtime}/environment.json",
    log:
        "logs/environments/{runtime}.log",
    localrule: True
    params:
        code=lambda wildcards: code_for("runtime").sha256,
    script:
        "../scripts/describe_runtime.py"
