# What is done before the first job of an invocation and after its last one. Nothing here happens while rules are read.
INVOCATION = f"{RESULTS}/.invocation.json"
to_run = []


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
    )


def failures_among(jobs):
    """Why environments and images could not be made that these jobs were to make."""
    made = {Path(file) for job in jobs for file in job.outputs}
    return [why for description, why in failures().items() if description in made]


# Files that another invocation makes or needs are left to it. What cannot be placed on this machine is refused before any
# job starts. The jobs of one invocation share their worker groups, so they must know which runs it wants.
onstart:
    to_run[:] = insides.jobs_to_run(workflow)
    wanted = [job.wildcards["run"] for job in to_run if job.rule.startswith("measure")]
    try:
        hold(
            writes=[file for job in to_run for file in job.outputs],
            reads=[file for job in to_run for file in job.inputs],
        )
        check_placements(PLAN, wanted)
        if insides.submits_jobs(workflow):
            check_requests([request_of(job) for job in to_run if not job.is_local], partitions())
    except DdlbenchError as error:
        raise WorkflowError(str(error))
    made = (file for job in to_run for file in job.outputs)
    set_aside_damage(made, Path(RESULTS), PLAN.settings.store)
    if PLAN.settings.fresh:
        stamp(FRESH)
    announce(INVOCATION, wanted)
    claim(Path(RESULTS), OWNER)


# Gaps for want of an environment are no success: the last words say why, and the exit status that it is so.
onsuccess:
    if told := failures_among(to_run):
        print(*told, sep="\n", file=sys.stderr)
        sys.exit(1)


onerror:
    print(*failures_among(to_run), sep="\n", end="", file=sys.stderr)
