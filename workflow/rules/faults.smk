# What killing members of a worker group in the middle of a training leads to: a table for each point of a fault. It takes
# all cores, as measuring does; what cannot be measured needs nothing.
rule faults:
    input:
        environment=lambda wildcards: described_by(
            point
            for point in [PLAN.faults[wildcards.fault].point]
            if PLAN.status(point).name == "measurable"
        ),
        datasets=lambda wildcards: [
            f"{RESULTS}/datasets/{point.dataset_key}.npz"
            for point in [PLAN.faults[wildcards.fault].point]
            if PLAN.status(point).name == "measurable"
        ],
        again=again_if_damaged(f"{RESULTS}/faults/{{fault}}.csv", was_before_fresh),
    output:
        f"{RESULTS}/faults/{{fault}}.csv",
        f"{RESULTS}/faults/{{fault}}.csv.prov.json",
    log:
        f"{LOGS}/faults/{{fault}}/faults.log",
    threads: 1024
    resources:
        slurm_extra=alone,
    params:
        code=lambda wildcards: code_of(PLAN.faults[wildcards.fault].run, "faults").sha256,
        kill=lambda wildcards: list(PLAN.faults[wildcards.fault].kill),
        steps=lambda wildcards: [PLAN.faults[wildcards.fault].at_step, PLAN.faults[wildcards.fault].steps],
        timeout_s=lambda wildcards: PLAN.faults[wildcards.fault].timeout_s,
        dilation=PLAN.settings.dilation,
        gpus=lambda wildcards: gpus_for(PLAN.faults[wildcards.fault].run),
    script:
        "../scripts/kill_members.py"
