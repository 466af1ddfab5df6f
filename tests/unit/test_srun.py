"""What srun is told."""

from ddlbench.cluster.srun import srun_argv, variables_of_a_step


def test_one_process_is_started_on_each_node_with_all_that_the_job_has_there():
    assert srun_argv(["python", "-m", "node"], job="17", nodes=4, cpus=8) == [
        "srun",
        "--jobid=17",
        "--nodes=4",
        "--ntasks=4",
        "--ntasks-per-node=1",
        "--distribution=block",
        "--cpus-per-task=8",
        "--mem=0",
        "--cpu-bind=none",
        "--overlap",
        "--mpi=none",
        "--input=none",
        "--kill-on-bad-exit=1",
        "--export=ALL",
        "python",
        "-m",
        "node",
    ]


def test_gpus_are_asked_for_on_each_node():
    assert "--gres=gpu:2" in srun_argv(["true"], job="17", nodes=2, cpus=1, gpus=2)


def test_a_jobs_own_options_do_not_change_ours():
    of_the_job = {
        "SLURM_MEM_PER_CPU": "100",
        "SLURM_NTASKS": "8",
        "SRUN_CPUS_PER_TASK": "2",
        "SBATCH_QOS": "x",
    }
    kept = {"SLURM_CONF": "/etc/slurm/slurm.conf", "PATH": "/bin", "SLURMD_NODENAME": "n1"}
    assert variables_of_a_step(of_the_job | kept) == kept
