# Emulated links by themselves: messages between two hosts, collectives among several. Each takes all cores, as measuring
# does, and is a table with a sidecar of its own below results/probes.
rule all_probes:
    input:
        [f"{RESULTS}/{probe.table}" for probe in PLAN.probes],


rule point_to_point:
    input:
        environment=lambda wildcards: (
            [] if wildcards.transport in ("tcp", "ucx") else [".environments/torch/environment.json"]
        ),
        known=lambda wildcards: known(
            "probe",
            "probes/point_to_point/{link}-k{dilation}-{transport}.csv".format(**wildcards),
            PLAN.probe_tables,
        ),
        again=again_if_damaged(
            f"{RESULTS}/probes/point_to_point/{{link}}-k{{dilation}}-{{transport}}.csv", was_before_fresh
        ),
    output:
        f"{RESULTS}/probes/point_to_point/{{link}}-k{{dilation}}-{{transport}}.csv",
        f"{RESULTS}/probes/point_to_point/{{link}}-k{{dilation}}-{{transport}}.np.out",
        f"{RESULTS}/probes/point_to_point/{{link}}-k{{dilation}}-{{transport}}.csv.prov.json",
    log:
        f"{LOGS}/probes/{{link}}-k{{dilation}}-{{transport}}/probe.log",
    threads: 1024
    resources:
        slurm_extra=alone,
    params:
        code=lambda wildcards: code_for("point_to_point").sha256,
        link=lambda wildcards: list(PLAN.links[wildcards.link].values),
        measure=as_params(PLAN.settings.probes.measure),
        largest_bytes=PLAN.settings.probes.point_to_point.largest_bytes,
        netpipe=PLAN.settings.probes.netpipe,
    script:
        "../scripts/probe_point_to_point.py"


# Messages inside each runtime: over the host's network, between emulated hosts, over Docker's bridge.
rule runtimes:
    input:
        environment=[str(file) for runtime in NAMES["runtime"] for file in files_of("torch", runtime)],
        again=again_if_damaged(f"{RESULTS}/probes/runtimes.csv", was_before_fresh),
    output:
        f"{RESULTS}/probes/runtimes.csv",
        f"{RESULTS}/probes/runtimes.csv.prov.json",
    log:
        f"{LOGS}/probes/runtimes/probe.log",
    threads: 1024
    resources:
        slurm_extra=alone,
    params:
        code=lambda wildcards: code_for("runtimes").sha256,
        rounds=PLAN.settings.probes.measure.min_repetitions,
    script:
        "../scripts/probe_runtimes.py"


rule collectives:
    input:
        environment=".environments/torch/environment.json",
        known=lambda wildcards: known(
            "probe",
            "probes/collectives/{link}-k{dilation}-{hosts}h-{transport}.csv".format(**wildcards),
            PLAN.probe_tables,
        ),
        again=again_if_damaged(
            f"{RESULTS}/probes/collectives/{{link}}-k{{dilation}}-{{hosts}}h-{{transport}}.csv",
            was_before_fresh,
        ),
    output:
        f"{RESULTS}/probes/collectives/{{link}}-k{{dilation}}-{{hosts}}h-{{transport}}.csv",
        f"{RESULTS}/probes/collectives/{{link}}-k{{dilation}}-{{hosts}}h-{{transport}}.csv.prov.json",
    log:
        f"{LOGS}/probes/{{link}}-k{{dilation}}-{{hosts}}h-{{transport}}/probe.log",
    threads: 1024
    resources:
        slurm_extra=alone,
    params:
        code=lambda wildcards: code_for("collectives").sha256,
        link=lambda wildcards: list(PLAN.links[wildcards.link].values),
        measure=as_params(PLAN.settings.probes.measure),
        sizes_bytes=list(PLAN.settings.probes.collectives.sizes_bytes),
    script:
        "../scripts/probe_collectives.py"
