# A framework's own virtual environment, made on demand by the first run that needs it.
rule environment:
    input:
        requirements=lambda wildcards: PLAN.settings["environments"][wildcards.framework]["requirements"],
    output:
        ".environments/{framework}/environment.json",
    log:
        "logs/environments/{framework}.log",
    conda:
        "../envs/driver.yaml"
    threads: 2
    script:
        "../scripts/create_environment.py"
