"""The models that a session's workers hold: those that memory is too small for are given up, the largest first."""

from dataclasses import replace

import pytest

from ddlbench.launch.group_member import LackedMemory
from ddlbench.plan import load
from ddlbench.protocol.messages import ModelShape
from ddlbench.sweep.held_models import HeldModels
from tests.support.small_study import small_repository, write_study

SHAPE = (28, 28, 1)


@pytest.fixture
def points(tmp_path):
    settings, study = small_repository(tmp_path)
    write_study(tmp_path, study)
    point = load(settings, tmp_path).grid("small2000", "latency").points[0]
    return [replace(point, model=model, image_shape=SHAPE) for model in ("mlp", "conv1", "conv2")]


def test_the_largest_model_is_given_up_first_and_its_points_say_why(points):
    mlp, conv1, conv2 = points  # conv1, without the second pooling, has the most parameters
    models = HeldModels(points)
    assert models.points == points
    models.give_up_largest(LackedMemory("rank 0 ran out of memory"))
    assert models.shapes == [ModelShape("conv2", SHAPE), ModelShape("mlp", SHAPE)]
    assert models.points == [mlp, conv2]
    assert models.why_not(conv1) == "its model does not fit into memory: rank 0 ran out of memory"
    assert models.why_not(mlp) is models.why_not(conv2) is None


def test_all_models_can_be_given_up(points):
    models = HeldModels(points)
    for _ in points:
        models.give_up_largest(LackedMemory("no memory"))
    assert models.shapes == models.points == []


def test_what_memory_is_too_small_for_is_done_with_fewer_models_and_new_workers(points):
    models, held, started = HeldModels(points), [], []

    def hold():
        held.append([each.model for each in models.shapes])
        if len(models.shapes) > 1:
            raise LackedMemory("the server ran out of memory")
        return "done"

    assert models.made_to_fit(hold, lambda: started.append(True)) == "done"
    assert [sorted(each) for each in held] == [["conv1", "conv2", "mlp"], ["conv2", "mlp"], held[-1]]
    assert len(started) == 2
