"""The command that starts one of ddlbench's processes on each node of a SLURM allocation."""

from collections.abc import Mapping, Sequence

_OF_SRUN = ("SLURM_", "SRUN_", "SBATCH_")
_OF_THE_JOB = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CLUSTER_NAME")


def variables_of_a_step(variables: Mapping[str, str]) -> dict[str, str]:
    """Remove those variables of SLURM that would change the meaning of srun's arguments.

    For example, a job with memory per processor has a variable that srun takes as one more option, and srun then fails.

    Args:
        variables: the environment variables of the driver.

    Returns:
        Those for srun; the ones that identify the cluster and its configuration remain.
    """
    return {
        name: value
        for name, value in variables.items()
        if name in _OF_THE_JOB or not name.startswith(_OF_SRUN)
    }


def srun_argv(command: Sequence[str], *, job: str, nodes: int, cpus: int, gpus: int = 0) -> list[str]:
    """Build the command line that runs a command once on each of the first nodes of a job.

    A task has all that the job has on its node (`--mem=0`, no binding). It shares this with the step that calls srun
    (`--overlap`). The step ends as a whole as soon as one of its tasks fails (`--kill-on-bad-exit`).

    Args:
        command: the program and its arguments.
        job: SLURM's number of the job.
        nodes: on how many nodes.
        cpus: processors of each node.
        gpus: GPUs of each node.

    Returns:
        The argv of srun.
    """
    return [
        "srun",
        f"--jobid={job}",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        "--distribution=block",
        f"--cpus-per-task={cpus}",
        *([f"--gres=gpu:{gpus}"] if gpus else []),
        "--mem=0",
        "--cpu-bind=none",
        "--overlap",
        "--mpi=none",
        "--input=none",
        "--kill-on-bad-exit=1",
        "--export=ALL",
        *command,
    ]
