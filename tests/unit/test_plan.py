"""From a configuration to points, runs and figures."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from ddlbench.errors import ConfigError
from ddlbench.files import canonical_json
from ddlbench.measurements.fingerprint import fingerprint
from ddlbench.plan import Point, group_key, link_words, load, point_id, words
from tests.support.small_study import REPOSITORY, small_repository, write_study


@pytest.fixture
def repository(tmp_path):
    return tmp_path, *small_repository(tmp_path)


def planned(root, settings, study, **grid):
    study["grids"]["bandwidth"] |= grid
    write_study(root, study)
    return load(settings, root)


def test_a_grid_is_all_combinations_of_its_values(repository):
    plan = planned(*repository, workers=2)
    points = plan.grid("small2000", "bandwidth").points
    found = {(point.model, point.batch_size, point.bandwidth_mbit) for point in points}
    assert found == {(m, b, r) for m in ("mlp", "conv1") for b in (32, 64) for r in (400, 800, 2000)}
    assert len(points) == len(found)


def test_a_single_worker_uses_no_link_and_is_one_point_on_all_links(repository):
    points = planned(*repository).grid("small2000", "bandwidth").points
    alone = [point for point in points if point.workers == 1]
    assert len(alone) == 4  # 2 models, 2 batch sizes
    assert {(point.bandwidth_mbit, point.latency_ms, point.loss_percent) for point in alone} == {(None,) * 3}


def test_only_an_emulated_fabric_has_a_link(repository):
    points = planned(*repository, fabric="loopback", workers=2).grid("small2000", "bandwidth").points
    assert {point.latency_ms for point in points} == {None}


def test_a_links_values_are_replaced_one_by_one(repository):
    point = planned(*repository, link="wan-ocean", workers=2).grid("small2000", "bandwidth").points[0]
    assert (point.bandwidth_mbit, point.latency_ms, point.loss_percent) == (400, 40, 0.01)


def test_a_point_has_the_cores_and_the_memory_of_its_hosts(repository):
    point = planned(*repository).grid("small2000", "latency").points[0]
    assert (point.vcpus, point.memory_gb) == (2, 8.0)


def test_the_configuration_wins_over_the_study(repository):
    root, settings, study = repository
    settings["grids"] = {"small2000": {"bandwidth": {"batch_size": 128}}}
    points = planned(root, settings, study).grid("small2000", "bandwidth").points
    assert {point.batch_size for point in points} == {128}


def test_included_points_come_on_top_of_a_grid(repository):
    root, settings, study = repository
    settings["grids"] = {"small2000": {"bandwidth": {"include": [{"workers": 1, "batch_size": 64000}]}}}
    points = planned(root, settings, study, model="mlp").grid("small2000", "bandwidth").points
    assert Counter(point.workers for point in points if point.batch_size == 64000) == {1: 1}
    assert len(points) == 2 * 3 + 2 + 1


def test_equal_points_of_a_grid_are_measured_once(repository):
    plan = planned(*repository, workers=2, batch_size=[64, 64, 64.0], include=[{"model": "mlp"}])
    points = plan.grid("small2000", "bandwidth").points
    assert len(points) == len(set(points)) == 6


def test_two_grids_share_the_measurement_of_an_equal_point(repository):
    root, settings, study = repository
    study["grids"]["again"] = study["grids"]["bandwidth"]
    plan = planned(root, settings, study)
    assert plan.grid("small2000", "again").points == plan.grid("small2000", "bandwidth").points


def test_a_run_measures_what_one_living_group_can(repository):
    plan = planned(*repository)
    for run in plan.runs:
        assert {group_key(point) for point in run.points} == {run.key}
    assert [(run.grid, run.workers) for run in plan.runs] == [
        ("bandwidth", 1),
        ("bandwidth", 2),
        ("latency", 4),
    ]
    assert len({run.id for run in plan.runs}) == len(plan.runs)


def test_a_run_keeps_its_id_when_its_grid_grows(repository):
    before = planned(*repository).runs
    after = planned(*repository, batch_size=[16, 32, 64, 128], model="cnn").runs
    assert [run.id for run in before] == [run.id for run in after]


def test_a_figure_needs_only_the_runs_that_it_shows(repository):
    plan = planned(*repository)
    assert [(run.grid, run.workers) for run in plan.runs_of("small2000_fig1")] == [("bandwidth", 2)]
    assert plan.runs_of("small2000_fig2") == plan.runs
    assert plan.runs_of("small2000/latency") == plan.grid("small2000", "latency").runs


def test_a_figure_may_be_of_images_of_one_shape_as_a_grid_writes_it(repository):
    root, settings, study = repository
    study["figures"]["small2000_fig1"]["where"] = {"image_shape": "28x28x1"}
    assert len(planned(root, settings, study).runs_of("small2000_fig1")) > 0


def test_all_groups_of_a_figure_are_dilated_as_its_largest_one(repository):
    plan = planned(*repository)
    runs = plan.runs_of("small2000_fig2")
    sizes = [run.points[0].hosts for run in runs]
    assert len(set(sizes)) > 1
    assert {plan.largest_group(run) for run in runs} == {max(sizes)}


@pytest.mark.parametrize(
    ("y", "strategy", "alike"),
    [
        ("test_accuracy_percent", "ring_allreduce", False),
        ("test_loss", "parameter_server_sync", False),
        ("training_time_s", "ring_allreduce", True),
        # How old an asynchronous worker's parameters are depends on how fast hosts are.
        ("test_loss", "parameter_server_async", True),
    ],
)
def test_groups_of_a_figure_of_what_was_learnt_need_not_be_dilated_alike(repository, y, strategy, alike):
    root, settings, study = repository
    for figure in study["figures"].values():
        figure["y"] = y
    for grid in study["grids"].values():
        grid["strategy"] = strategy
    plan = planned(root, settings, study)
    runs = plan.runs_of("small2000_fig2")
    sizes = [run.points[0].places for run in runs]
    assert [plan.largest_group(run) for run in runs] == ([max(sizes)] * len(sizes) if alike else sizes)


def test_an_unknown_figure_or_run_is_answered_with_the_nearest(repository):
    plan = planned(*repository)
    with pytest.raises(ConfigError, match="did you mean 'small2000_fig1'"):
        plan.runs_of("small2000_fig11")
    with pytest.raises(ConfigError, match="did you mean 'small2000-latency-torch-ring-4w-"):
        plan.run("small2000-latency-torch-ring-4w")


def test_what_cannot_be_measured_yet_is_planned_and_says_what_is_possible(repository):
    plan = planned(*repository, fabric="infiniband")
    status = plan.status(plan.grid("small2000", "bandwidth").points[0])
    possible = "emulated, loopback; between the nodes of a cluster: docs/clusters.md"
    assert status == ("not_available", f"not available yet: fabric infiniband (possible are {possible})")


@pytest.mark.parametrize(
    ("fabric", "machine", "status"),
    [
        ("emulated", {"gpus": 0}, ("not_available", "this machine has no GPU (devices: gpu)")),
        ("loopback", {"gpus": 0}, ("not_available", "this machine has no GPU (devices: gpu)")),
        ("emulated", {"gpus": 1}, ("measurable", None)),
        ("loopback", {"gpus": 8, "scheduler": "slurm"}, ("measurable", None)),
        ("emulated", {"scheduler": "slurm"}, ("not_available", "this machine has no GPU (devices: gpu)")),
        (
            "ethernet",
            {"scheduler": "slurm"},
            ("measurable", None),
        ),  # the partition's nodes have them or have not
    ],
)
def test_on_gpus_is_measured_what_this_machine_or_the_clusters_nodes_have(
    repository, fabric, machine, status
):
    root, settings, study = repository
    study["grids"]["bandwidth"] |= {"devices": ["cpu", "gpu"], "fabric": fabric}
    write_study(root, study)
    plan = load(settings, root, **machine)
    points = plan.grid("small2000", "bandwidth").points
    assert {plan.status(point) for point in points if point.devices == "gpu"} == {status}
    assert {plan.status(point).name for point in points if point.devices == "cpu"} == {"measurable"}


def test_workers_on_processors_and_on_gpus_are_groups_of_their_own(repository):
    plan = planned(*repository, workers=2, devices=["cpu", "gpu"])
    assert [run.group["devices"] for run in plan.runs_of("small2000/bandwidth")] == ["cpu", "gpu"]


POINT = Point(
    framework="torch", strategy="ring_allreduce", runtime="bare", devices="cpu", fabric="emulated", model="mlp",
    dataset="digits", image_shape=(28, 28, 1), batch_size=128, workers=2, host_count=2, vcpus=1, memory_gb=4.0,
    bandwidth_mbit=400.0, latency_ms=0.0, loss_percent=0.5, congestion_control="cubic", learning_rate=0.01,
    momentum=0.0, epochs=0, steps_per_epoch=None, seed=1,
)  # fmt: skip


def test_a_points_id_is_the_same_everywhere_and_for_ever():
    assert point_id(POINT) == "torch-ring-mlp-digits-b128-2w-400mbit-0ms-0.5loss-0092d7"
    assert point_id(POINT.as_dict()) == point_id(POINT)


def test_measurements_made_before_there_were_sites_are_still_found():
    measure = {"warmup_steps": 1, "min_steps": 1, "max_steps": 50, "step_budget_s": 0.3}
    made_from = {"environment_sha256": "e", "code_sha256": "c", "dataset_sha256": "d"}
    machine = {"cpu_model": "m", "cores": 2}
    found = fingerprint(POINT.as_dict(), measure=measure, dilation=2.0, machine=machine, **made_from)
    assert found == "5edab36df43ecdfd7ff115d430966515af796e2bf500905d83ed56230b9b95d9"


def test_a_points_data_is_json_and_gives_the_point_back():
    assert Point.from_dict(POINT.as_dict()) == POINT
    assert canonical_json(POINT.as_dict())


def test_a_point_can_be_said_in_words():
    assert words(POINT) == "mlp, digits, batch 128, 2 workers, 400 Mbit/s, 0 ms, 0.5 % loss"
    assert link_words(POINT) == "400 Mbit/s, 0 ms, 0.5 % loss"
    alone = POINT.as_dict() | {"workers": 1, "bandwidth_mbit": None, "latency_ms": None, "loss_percent": None}
    assert words(alone | {"framework": "mxnet"}) == "mlp, digits, batch 128, 1 worker, mxnet"


def test_whole_numbers_written_as_fractions_are_the_same_point(repository):
    one, other = (
        planned(*repository, batch_size=size, bandwidth_mbit=rate)
        for size, rate in ((64, 400), (64.0, 400.0))
    )
    assert [run.points for run in one.runs] == [run.points for run in other.runs]
    assert [p.id for r in one.runs for p in r.points] == [p.id for r in other.runs for p in r.points]


def test_ten_thousand_points_become_a_handful_of_runs(repository):
    sizes, rates = list(range(8, 108)), list(range(100, 150))
    plan = planned(*repository, batch_size=sizes, bandwidth_mbit=rates, workers=2)
    (run,) = plan.runs_of("small2000/bandwidth")
    assert len(run.points) == 10_000


def test_planning_loads_neither_pandas_nor_numpy_nor_snakemake():
    code = """
import sys, pathlib
from ddlbench.plan import load
load(pathlib.Path("config/config.yaml"), pathlib.Path("."))
print(*sorted({"pandas", "numpy", "snakemake", "torch", "pydantic"} & set(sys.modules)))
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""


def test_hosts_of_different_number_are_different_runs(repository):
    root, settings, study = repository
    study["hosts"]["three"] = study["hosts"]["pair"] | {"count": 3}  # dilated otherwise than a pair
    plan = planned(root, settings, study, hosts=["pair", "three"], workers=2)
    assert len(plan.runs_of("small2000/bandwidth")) == 2


def test_a_link_is_probed_in_the_least_dilated_time_that_makes_it_slow_enough(repository):
    root, settings, _ = repository
    settings["probes"] |= {"shaped_mbit": 1000}
    settings["probes"]["point_to_point"] |= {"links": ["gigabit", "infiniband-edr"], "transports": ["tcp"]}
    settings["probes"]["collectives"] |= {"links": ["ten-gigabit"], "hosts": [2, 4]}
    assert [probe.table for probe in load(settings, root).probes] == [
        "probes/point_to_point/gigabit-k1-tcp.csv",
        "probes/point_to_point/infiniband-edr-k97-tcp.csv",
        "probes/collectives/ten-gigabit-k10-2h-gloo.csv",
        "probes/collectives/ten-gigabit-k10-4h-gloo.csv",
    ]


def test_the_links_of_a_figure_share_their_dilation_so_that_they_compare(repository):
    root, settings, study = repository
    study["figures"]["small2000_fig3"] = {
        "kind": "probe", "links": ["gigabit", "ten-gigabit"], "title": "a figure", "x": "size_bytes",
        "y": "throughput_mbit", "category": "Links", "caption": "The paper sees nothing.",
    }  # fmt: skip
    write_study(root, study)
    assert load(settings, root).figures["small2000_fig3"].tables == (
        "probes/point_to_point/gigabit-k10-tcp.csv",
        "probes/point_to_point/ten-gigabit-k10-tcp.csv",
    )
