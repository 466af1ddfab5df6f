# What is done before the first job of an invocation and after its last one. Nothing here happens while rules are read.
from functools import partial
from time import time

from snakemake.shell import shell

from ddlbench.containers.image_files import check_makeable
from ddlbench.environments.gpu_builds import check_gpu_builds
from ddlbench.runs.ending import IGNORE_INTERRUPTS, end_quietly, records_since
from ddlbench.runs.preconditions import check_room, full_disk
from ddlbench.sandbox.sandbox import check_sandbox

INVOCATION = f"{RESULTS}/.invocation.json"
OF_IMAGES = ("base_image", "docker_image", "apptainer_image")
OF_RUNS = ("measure", "measure_on_nodes")
ON_EMULATED_HOSTS = ("measure", "recommend_measure", "faults", "point_to_point", "collectives", "runtimes")
MEASURING = (*ON_EMULATED_HOSTS, "measure_on_nodes")
WRITTEN = [Path(RESULTS), Path(PLAN.settings.store), Path("logs"), Path(".snakemake")]
to_run = []

shell.prefix(f"set -euo pipefail; {IGNORE_INTERRUPTS}")


def end_with_one_line():
    """Have Ctrl-C and SIGTERM say what is kept. Snakemake takes SIGTERM for itself between planning and the first job."""
    kept = partial(records_since, PLAN.settings.store, time())
    end_quietly(kept, partial(insides.leave, workflow), partial(full_disk, WRITTEN))


if PLANNING:
    end_with_one_line()


def request_of(job):
    """What a job will ask SLURM for."""
    asked = job.resources
    return Request(
        " ".join([job.rule, *job.wildcards.values()]),
        partition=asked.get("slurm_partition"),
        nodes=asked.get("nodes", 1),
        cpus=asked.get("cpus_per_task", job.threads),
        memory_mb=asked.get("mem_mb", 0),
        gres=asked.get("gres", ""),
        runtime_min=asked.get("runtime"),
        constraint=asked.get("constraint", ""),
        extra=asked.get("slurm_extra", ""),
        must_be_alone=job.rule in MEASURING,
    )


def failures_among(jobs):
    """Why environments and images could not be made that these jobs were to make."""
    made = {Path(file) for job in jobs for file in job.outputs}
    return [why for description, why in failures().items() if description in made]


def runs_of(job):
    """The runs of which a job measures points."""
    is_for_a_choice = job.rule == "recommend_measure"
    if is_for_a_choice:
        return sorted(set(options().values()))
    return [job.wildcards["run"]] if job.rule in OF_RUNS else []


def measured_results():
    """The results of the jobs that measure."""
    return [Path(job.outputs[0]) for job in to_run if job.rule in MEASURING]


def is_submitted(job):
    """Whether a job runs on a machine of the cluster's, of which nothing is known here."""
    return insides.submits_jobs(workflow) and not job.is_local


def needs_sandbox(job):
    """Whether a job measures on emulated hosts of this machine."""
    is_gap = job.rule == "measure" and not PLAN.measurable_points(job.wildcards["run"])
    return job.rule in ON_EMULATED_HOSTS and not is_submitted(job) and not is_gap


# Files that another invocation makes or needs are left to it. What cannot be placed on this machine is refused before any
# job starts. The jobs of one invocation share their worker groups, so they must know which runs it wants.
onstart:
    to_run[:] = insides.jobs_to_run(workflow)
    wanted = [job.wildcards["run"] for job in to_run if job.rule in OF_RUNS]
    measured = sorted({run for job in to_run for run in runs_of(job)})
    measured_here = sorted({run for job in to_run if not is_submitted(job) for run in runs_of(job)})
    if insides.submits_arrays(workflow):
        raise WorkflowError(
            "slurm-array-jobs: ddlbench submits each job by itself. Leave that option out."
        )
    try:
        check_room(WRITTEN)
        hold(
            writes=[file for job in to_run for file in job.outputs],
            reads=[file for job in to_run for file in job.inputs],
        )
        if any(needs_sandbox(job) for job in to_run):
            check_sandbox(patience_s=60.0)  # a busy machine may take its time
        check_gpu_builds(
            [
                point.environment
                for run in measured
                for point in PLAN.measurable_points(run)
                if point.devices == "gpu"
            ],
            {name: Path(each.requirements) for name, each in PLAN.settings.environments.items()},
        )
        check_placements(PLAN, measured_here)
        if insides.submits_jobs(workflow):
            if measured:
                check_makeable([Path(job.outputs[0]) for job in to_run if job.rule in OF_IMAGES])
            check_requests([request_of(job) for job in to_run if is_submitted(job)], partitions())
    except DdlbenchError as error:
        raise WorkflowError(str(error))
    settle(measured_results(), Path(RESULTS))
    if PLAN.settings.fresh:
        stamp(measured_results(), Path(RESULTS))
    made = (file for job in to_run for file in job.outputs)
    set_aside_damage(made, Path(RESULTS), PLAN.settings.store)
    end_with_one_line()
    if insides.submits_jobs(workflow):
        insides.follow_jobs(workflow)
    announce(INVOCATION, wanted)
    claim(Path(RESULTS), OWNER)


# Gaps for want of an environment are no success: the last words say why, and the exit status that it is so.
onsuccess:
    settle(measured_results(), Path(RESULTS))
    if insides.submits_jobs(workflow):
        insides.end_jobs(workflow)
    if told := failures_among(to_run):
        print(*told, sep="\n", file=sys.stderr)
        sys.exit(1)


onerror:
    settle(measured_results(), Path(RESULTS))
    if insides.submits_jobs(workflow):
        insides.end_jobs(workflow)
    print(*failures_among(to_run), sep="\n", end="", file=sys.stderr)
