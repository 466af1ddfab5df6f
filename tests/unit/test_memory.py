"""Points that this machine's memory cannot hold are named before anything starts."""

from dataclasses import replace

import pytest

from ddlbench.cli.main import main
from ddlbench.plan import load
from ddlbench.runs import memory
from ddlbench.runs.memory import least_bytes
from tests.support.repository import REPOSITORY

PLAN = load(REPOSITORY / "config/config.yaml", REPOSITORY)
POINT = next(
    point
    for run in PLAN.runs
    for point in run.points
    if point.model == "keras_sequential" and point.workers == 2
)


def test_a_worker_needs_parameters_gradients_and_what_its_images_become():
    small, large = (least_bytes(replace(POINT, batch_size=2 * images)) for images in (100, 200))
    weights = 2 * large // 2 - 2 * (large - small)  # what does not grow with the images
    assert large - small == pytest.approx(100 * (large - weights) / 200, rel=0.01)
    assert least_bytes(replace(POINT, workers=1)) > least_bytes(POINT)


def test_check_says_which_points_will_not_fit_and_why(capsys, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert main(["check", "config/config.yaml"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "will not fit" in line)
    assert "anwar2021: 1 point will not fit: keras_sequential needs " in line
    assert "64000 images, and a host has " in line


def test_the_point_with_the_largest_batch_is_all_that_does_not_fit_into_a_host_of_its_study(monkeypatch):
    plenty = type("Memory", (), {"available": 1 << 42})
    monkeypatch.setattr("psutil.virtual_memory", lambda: plenty)
    (line,) = memory.too_large(PLAN)
    assert line.endswith("a host has 8 GB (the study's host)")
