"""All that ddlbench needs of Snakemake beyond its documented interface. A new Snakemake can break this module alone.

`workflow` is the object that Snakemake gives to a Snakefile. No function changes anything on disk.
"""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake.persistence import PersistenceBase
from snakemake.settings.enums import Quietness

from ddlbench.cluster.job_ends import LOOK_S, JobEnds
from ddlbench.files import tail

_CANCELLING_S = 1.5


@dataclass(frozen=True)
class Job:
    """A job that Snakemake is going to run.

    is_local: it runs where Snakemake runs, also where others are submitted. resources: as far as they are known yet.
    """

    rule: str
    wildcards: dict[str, str]
    is_local: bool
    threads: int
    resources: dict[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def plans_for_jobs(workflow: Any) -> bool:
    """Whether this process plans the jobs, and is not itself a job that another process has started."""
    return bool(workflow.is_main_process)


def submits_jobs(workflow: Any) -> bool:
    """Whether jobs are submitted to a cluster. It is not known while the Snakefile is being read."""
    return bool(workflow.non_local_exec)


def given_configuration(workflow: Any) -> tuple[list[Any], dict[str, Any]]:
    """The files that `--configfile` names, and the values that `--config` gives."""
    given = workflow.config_settings
    return list(given.configfiles), dict(given.config)


def default_resources(workflow: Any) -> Mapping[str, Any]:
    """The profile's `default-resources`: expressions, whose value `default_of` gives."""
    defaults: Mapping[str, Any] = workflow.resource_settings._parsed_default_resources
    return defaults


def default_of(workflow: Any, key: str, wildcards: Any, **of_the_job: Any) -> Any:
    """The value that the profile's `default-resources` give a job for a resource; None if they give none.

    To be called by functions of resources. of_the_job: all that Snakemake tells these, as an expression may use any.
    """
    default = workflow.resource_settings._parsed_default_resources.get(key)
    return default and default.evaluate(wildcards, **of_the_job).value


def given_cores(workflow: Any) -> int | None:
    """What `--cores` says; None if it says nothing or that there is no limit."""
    cores: int | None = workflow.resource_settings.cores
    return cores


def ignore_cores(workflow: Any) -> None:
    """Take `--cores` as not given, because jobs that are submitted do not run on this machine's cores.

    Snakemake documents that it ignores `--cores` then. But it limits the threads of submitted jobs by it, and
    `profiles/default` gives it.
    """
    workflow.resource_settings.cores = None
    workflow.global_resources["_cores"] = None


def show_jobs_of_dry_run(workflow: Any) -> None:
    """Have a dry run count the jobs, though `profiles/default` asks for fewer messages; else it would show nothing."""
    settings = workflow.logger_manager.settings
    if settings.dryrun and settings.quiet:
        settings.quiet.discard(Quietness.PROGRESS)


def take_no_locks() -> None:
    """Have Snakemake lock no folder in this process, whatever the profile says: its lock files outlive a killed call.

    The way out that it names, `--unlock`, would drop those of calls that live. `ddlbench.runs.file_locks` has others.
    """
    PersistenceBase.lock = PersistenceBase.lock_warn_only = PersistenceBase.noop


def submits_arrays(workflow: Any) -> bool:
    """Whether jobs are to be submitted as arrays of SLURM's, in which `follow_jobs` could not find their ends."""
    return bool(getattr(workflow.executor_settings, "array_jobs", None))


def follow_jobs(workflow: Any) -> None:
    """Have jobs that are submitted to SLURM end for this process as soon as they have ended. To be called by `onstart`.

    SLURM's plugin forgets all jobs if slurmctld does not answer when it asks, and waits for ever for a job that SLURM
    has forgotten. It asks less and less often, and does not show what a job has said.
    """
    executor = workflow.scheduler._executor
    ends = JobEnds(Path(executor.tmpdir), executor.run_uuid)
    unfollowed = executor.format_job_exec

    def token(job: Any) -> str:
        return f"{job.jobid}-{job.attempt}"

    async def check_active_jobs(submitted: list[Any]) -> AsyncIterator[Any]:
        executor.next_seconds_between_status_checks = LOOK_S
        found = ends.ended({each.external_jobid: token(each.job) for each in submitted})
        for each in submitted:
            log = Path(each.aux["slurm_logfile"])
            end = found.get(each.external_jobid)
            if end is None:
                yield each
            elif end.is_success:
                executor.report_job_success(each)
                if not workflow.executor_settings.keep_successful_logs:
                    log.unlink(missing_ok=True)
            else:
                said = next((words for file in (*each.job.log, log) if (words := tail(Path(file)))), "")
                executor.logger.error(
                    f"{end.why}{said}\n"
                )  # the profiles are quiet about jobs, also those that fail
                executor.report_job_error(each, aux_logs=[str(log)])

    executor.format_job_exec = lambda job: ends.command(token(job), unfollowed(job))
    executor.check_active_jobs = check_active_jobs


def leave(workflow: Any) -> str:
    """Cancel the jobs that this process has submitted; their end is not in its hands.

    Returns a line on the jobs that may be left, if any.
    """
    executor = getattr(workflow.scheduler, "_executor", None)
    if folder := getattr(executor, "_tmpdir", None):
        shutil.rmtree(os.path.abspath(folder), ignore_errors=True)
    if not (name := getattr(executor, "run_uuid", None)):  # the name of all its jobs
        return ""
    command = ["scancel", "--name", name]
    try:
        subprocess.run(command, capture_output=True, timeout=_CANCELLING_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return f"SLURM does not answer, and its jobs may go on. To end them:  {' '.join(command)}\n"
    return ""


def end_jobs(workflow: Any) -> None:
    """Have SLURM give up the jobs of this process: all are over, and it does not know if it has lost their steps."""
    command = ["scancel", "--name", workflow.scheduler._executor.run_uuid]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, capture_output=True, timeout=_CANCELLING_S)


def make_again(workflow: Any, output: str) -> None:
    """Have the job of `output` run, if the targets need that file. To be called by input functions."""
    workflow.dag.forcefiles.add(output)


def jobs_to_run(workflow: Any) -> list[Job]:
    """The jobs that Snakemake is going to run. To be called by `onstart`."""
    return [
        Job(
            rule=job.rule.name,
            wildcards=dict(job.wildcards.items()),
            is_local=job.is_local,
            threads=job.threads,
            resources={key: value for key, value in job.resources.items() if value != "<TBD>"},
            inputs=tuple(map(str, job.input)),
            outputs=tuple(map(str, job.output)),
        )
        for job in workflow.dag.needrun_jobs()
    ]
