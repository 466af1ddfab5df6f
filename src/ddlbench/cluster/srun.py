"""The command that starts one of our processes on each node of a SLURM allocation."""

from collections.abc import Mapping, Sequence

_OF_SRUN = ("SLURM_", "SRUN_", "SBATCH_")
_OF_THE_JOB = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CLUSTER_NAME")


def variables_of_a_step(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment variables for srun, without those that would change what its argv says.

    A job that was given memory by processor, say, has a variable that srun takes for an option beside ours, and fails.
    """
    return {
        name: value
        for name, value in variables.items()
        if name in _OF_THE_JOB or not name.startswith(_OF_SRUN)
    }


def srun_argv(command: Sequence[str], *, job: str, nodes: int, cpus: int, gpus: int = 0) -> list[str]:
    """The argv that runs `command` once on each of the first `nodes` nodes of `job`, with `cpus` and `gpus` of each.

    All that the job has on a node is its task's (`--mem=0`, no binding), beside whatever step it is called from
    (`--overlap`); the step ends as a whole as soon as one of its tasks fails (`--kill-on-bad-exit`).
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
