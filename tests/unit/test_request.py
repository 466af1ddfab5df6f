"""What a scheduler is asked for, from a study's hosts and the configuration's `cluster`."""

import pytest

from ddlbench.errors import ConfigError
from ddlbench.plan import load, overridden, requested
from tests.support.small_study import small_repository, write_study


@pytest.fixture
def planned(tmp_path):
    """The plan of a study between machines."""
    settings, study = small_repository(tmp_path)

    def plan(cluster=None, scheduler="slurm", vcpus=2, **grid):
        study["grids"]["latency"] |= {"fabric": "ethernet", **grid}
        study["hosts"]["four"]["vcpus"] = vcpus
        write_study(tmp_path, study)
        return load(settings | ({"cluster": cluster} if cluster else {}), tmp_path, scheduler=scheduler)

    return plan


def test_a_run_asks_for_a_node_a_host_and_what_the_study_gives_each(planned):
    plan = planned()
    (run,) = plan.runs_of("small2000/latency")
    assert requested(plan, run) == {
        "mpi": "srun",
        "nodes": 4,
        "tasks": 4,
        "cpus_per_task": 2,
        "mem_mb": 9 * 1024,
    }


def test_one_worker_needs_no_srun_of_its_own(planned):
    plan = planned(workers=1)
    (run,) = plan.runs_of("small2000/latency")
    assert "mpi" not in requested(plan, run)


def test_a_figures_requests_count_before_its_studys(planned):
    cluster = {
        "studies": {"small2000": {"partition": "cpu", "runtime_min": 30}},
        "figures": {"small2000_fig2": {"partition": "fast", "gres": "gpu:2"}},
    }
    plan = planned(cluster)
    (run,) = plan.runs_of("small2000/latency")
    asked = requested(plan, run)
    assert (asked["slurm_partition"], asked["runtime"], asked["gres"]) == ("fast", 30, "gpu:2")
    assert asked["tasks_per_gpu"] == 0  # the executor would make tasks of GPUs
    assert overridden(plan) == {"slurm_partition", "runtime", "gres"}


def test_requests_for_a_figure_that_does_not_exist_are_refused(planned):
    with pytest.raises(
        ConfigError, match=r"cluster\.figures\.small2000_fig9: 'small2000_fig9' is not a figure"
    ):
        planned({"figures": {"small2000_fig9": {"partition": "fast"}}})


def test_what_slurm_does_not_know_is_refused(planned):
    with pytest.raises(ConfigError, match=r"cluster\.studies\.small2000\.partion: there is no such key"):
        planned({"studies": {"small2000": {"partion": "fast"}}})


def test_points_between_machines_are_measurable_where_a_scheduler_gives_some(planned):
    for scheduler, name in (("slurm", "measurable"), (None, "not_available")):
        plan = planned(scheduler=scheduler)
        (run,) = plan.runs_of("small2000/latency")
        assert {plan.status(point).name for point in run.points} == {name}
    assert "docs/clusters.md" in (plan.status(run.points[0]).reason or "")


@pytest.mark.parametrize(("workers", "nodes", "gpus"), [(1, 1, 1), (2, 1, 2), (8, 2, 4)])
def test_several_workers_a_host_fill_nodes_with_a_gpu_for_each(planned, workers, nodes, gpus):
    plan = planned(
        vcpus=8, workers=workers, workers_per_host=4, devices="gpu", framework="torch", batch_size=64
    )
    (run,) = plan.runs_of("small2000/latency")
    asked = requested(plan, run)
    assert (asked["nodes"], asked["tasks"], asked["gres"]) == (nodes, nodes, f"gpu:{gpus}")
    assert asked["tasks_per_gpu"] == 0
