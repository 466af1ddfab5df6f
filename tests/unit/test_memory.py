"""What memory training takes is predicted, and points that it cannot hold are named before anything starts."""

from dataclasses import replace
from functools import partial

import pytest
from test_filled_hosts import SHARED, plan_of

from ddlbench.cli.main import main
from ddlbench.doctor.judgement import verdict
from ddlbench.launch.roles import BESIDES, WORKER
from ddlbench.memory.misfits import lacking_here, least_bytes, misfits, needed_bytes, too_large
from ddlbench.network.hosts import GIB
from ddlbench.plan import Plan, load
from ddlbench.workers.common.footprint.footprint import FOOTPRINTS
from ddlbench.workers.common.footprint.heap import Heap
from ddlbench.workers.common.footprint.step_memory import Habits, Step
from ddlbench.workers.common.memory import parameter_bytes
from ddlbench.workers.common.models.layers import Concat, ReLU
from ddlbench.workers.modules import MODULES
from tests.support.repository import REPOSITORY


@pytest.fixture(scope="module")
def plan() -> Plan:
    """The default plan."""
    return load(REPOSITORY / "config/config.yaml", REPOSITORY)


@pytest.fixture(scope="module")
def papers() -> Plan:
    """The papers' full grids."""
    return load(REPOSITORY / "config/paper.yaml", REPOSITORY)


def with_memory(monkeypatch: pytest.MonkeyPatch, gigabytes: float) -> None:
    """Let this machine have so much memory."""
    monkeypatch.setattr(
        "psutil.virtual_memory", lambda: type("Memory", (), {"available": int(gigabytes * GIB)})
    )


def test_a_heap_takes_the_smallest_hole_that_is_large_enough_and_joins_neighbours():
    heap = Heap()
    one, two, three, four, _ = (heap.new(size) for size in (100, 10, 50, 10, 10))
    heap.drop(one, three)
    assert heap.new(40).begin == three.begin
    heap.drop(two)
    assert heap.new(110).begin == 0
    assert heap.highest == 180
    heap.drop(four)
    assert heap.new(30).begin == 180  # 10 left of the third and 10 of the fourth are not enough


def test_what_is_free_below_the_top_is_used_again():
    heap = Heap()
    for _ in range(10):
        heap.drop(heap.new(100))
    assert (heap.highest, heap.top) == (100, 0)


def test_a_block_that_is_held_twice_is_free_when_both_have_dropped_it():
    heap = Heap()
    block = heap.keep(heap.new(100))
    heap.drop(block)
    assert heap.new(100).begin == 100
    heap.drop(block)
    assert heap.new(100).begin == 0


def test_what_branches_made_is_held_until_it_is_joined_and_a_part_of_the_gradient_is_made_for_each():
    heap = Heap()
    two_branches = (Concat(((ReLU(),), (ReLU(),))),)
    Step(heap, Habits(), images=1).run(two_branches, (1, 1, 1))
    # An image, what two branches made of it, both in one array, probabilities, the gradient: 4 + 2 x 4 + 3 x 8 bytes.
    # The parts of the gradient have room where the image and the one array were.
    assert heap.highest == 36


def test_every_worker_that_trains_has_a_footprint():
    computes = [name for name in MODULES if name != "torch_collectives" and not name.endswith("_replay")]
    trains = {(name, WORKER) for name in computes}
    assert set(FOOTPRINTS) == trains | {(name, role) for name, roles in BESIDES.items() for role in roles}


def test_a_step_needs_more_with_more_images_and_a_group_with_more_models(plan):
    run = next(each for each in plan.runs if each.points[0].model == "keras_sequential")
    point = replace(run.points[0], batch_size=1000 * run.workers)
    of_thousand = needed_bytes(run, point)
    of_two_thousand = needed_bytes(run, replace(point, batch_size=2000 * run.workers))
    of_three_thousand = needed_bytes(run, replace(point, batch_size=3000 * run.workers))
    assert of_three_thousand - of_two_thousand == pytest.approx(of_two_thousand - of_thousand, rel=0.02)
    with_vgg = replace(run, points=(*run.points, replace(point, model="vgg16", image_shape=(32, 32, 3))))
    assert needed_bytes(with_vgg, point) > of_thousand + parameter_bytes("vgg16", (32, 32, 3))


def test_the_least_that_a_host_needs_is_less_than_what_a_plan_predicts_and_nothing_of_what_nobody_knows(plan):
    for run in plan.runs:
        point = run.points[0]
        if point.replay or point.workers_per_host > 1:
            continue
        shape, images = "x".join(map(str, point.image_shape)), -(-point.batch_size // point.workers)
        least = partial(least_bytes, images=images, has_server_host=point.places > point.workers)
        most = needed_bytes(run, point)
        assert most / 3 < least(point.framework, point.strategy, point.model, shape) < most
        assert least("", point.strategy, point.model, shape) == 0
        assert least(point.framework, point.strategy, point.model, "") == 0
    few = {
        least_bytes("torch", "ring_allreduce", "conv1", "28x28x1", n, has_server_host=False)
        for n in range(1000)
    }
    assert len(few) < 40  # whatever is asked, few predictions are kept


def test_check_says_which_points_will_not_fit_and_why(capsys, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert main(["check", "config/config.yaml"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "will not fit" in line)
    assert "anwar2021: 1 point will not fit: torch needs about " in line
    assert "64000 images a worker), and the host has " in line


def test_the_point_with_the_largest_batch_is_all_that_does_not_fit_into_a_host_of_its_study(
    plan, monkeypatch
):
    with_memory(monkeypatch, 1 << 20)
    (line,) = too_large(plan)
    assert line.endswith("the host has 8 GB (as the study's)")


def test_a_machine_with_enough_memory_can_run_every_point_of_the_papers_grids_but_the_one_that_must_not_fit(
    papers, monkeypatch
):
    with_memory(monkeypatch, 1 << 20)
    assert {(each.point.batch_size, each.point.workers) for each in misfits(papers)} == {(64000, 1)}


def test_on_a_small_machine_check_and_doctor_name_what_its_memory_cannot_hold(papers, monkeypatch):
    with_memory(monkeypatch, 8)
    assert any(line.startswith("anwar2021: ") and "keras_sequential" in line for line in too_large(papers))
    judged = verdict(papers, "anwar2021_fig9", [], lacking_here(papers))
    assert any(reason.startswith("memory: ") for reason in judged.lacks)
    assert verdict(papers, "zhao2016_fig5", [], lacking_here(papers)).is_whole


def test_what_the_study_could_not_hold_either_is_no_lack_of_this_machine(plan, monkeypatch):
    with_memory(monkeypatch, 1 << 20)
    assert lacking_here(plan) == {}


def test_several_workers_of_a_host_have_a_part_of_its_memory_each(tmp_path, monkeypatch):
    with_memory(monkeypatch, 1 << 20)
    monkeypatch.setattr("ddlbench.memory.misfits.needed_bytes", lambda run, point: 3 * GIB)
    plan = plan_of(tmp_path, **SHARED)  # two workers on each host of 4 GB
    assert all(
        line.endswith("each of 4 parts of hosts has 2 GB (as the study's)") for line in too_large(plan)
    )
    assert list(misfits(plan))
    assert lacking_here(plan) == {}
