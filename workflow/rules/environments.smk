# A framework's own virtual environment, made on demand by the first run that needs it. Where it cannot be made, its record
# says why: the runs that need it are gaps, everything else goes on, and the next start tries again.
rule environment:
    input:
        requirements=requirements,
        recipe=lambda wildcards: recipe_files(requirements(wildcards)),
    output:
        ".environments/{environment}/environment.json",
    log:
        "logs/environments/{environment}.log",
    localrule: True
    conda:
        "../envs/driver.yaml"
    threads: 1  # as pip: two environments at once on two cores. Building Horovod takes them all, for minutes, once
    script:
        "../scripts/create_environment.py"


# Docker or Apptainer on this machine, or why workers cannot be started with it, which is told as above.
rule runtime:
    output:
        ".environments/{runtime}/environment.json",
    log:
        "logs/environments/{runtime}.log",
    localrule: True
    conda:
        "../envs/driver.yaml"
    params:
        code=lambda wildcards: code_for("runtime").sha256,
    script:
        "../scripts/describe_runtime.py"


# Gaps for want of an environment are no success: the last words say why, and the exit status that it is so.
onsuccess:
    if told := failures().values():
        print(*told, sep="\n", file=sys.stderr)
        sys.exit(1)


onerror:
    print(*failures().values(), sep="\n", end="", file=sys.stderr)
