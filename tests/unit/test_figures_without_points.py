"""A configuration that takes a part of a grid: figures of the other part have no points, all others stand."""

from pathlib import Path

import pytest

from ddlbench.errors import ConfigError
from ddlbench.plan import load
from ddlbench.plan.config_files import configuration
from tests.support.small_study import small_repository

REPOSITORY = Path(__file__).parents[2]
FIGURES = ["small2000_fig1", "small2000_fig2"]


@pytest.fixture
def alone(tmp_path):
    """The plan of the small study with one worker only, where `small2000_fig1` shows two."""
    settings, _ = small_repository(tmp_path)
    grids = {"small2000": {"bandwidth": {"workers": [1]}}}
    return load(settings | {"grids": grids, "default_figures": FIGURES}, tmp_path)


def test_a_figure_without_points_is_no_target_and_the_others_are(alone):
    assert alone.figures_without_points == {"small2000_fig1"}
    assert list(alone.figures) == ["small2000_fig2"]
    assert alone.default_figures == ("small2000_fig2",)


def test_who_asks_for_it_is_told_why(alone):
    with pytest.raises(ConfigError, match=r"no point .* small2000_fig1 shows"):
        alone.runs_of("small2000_fig1")


@pytest.mark.parametrize("files", [[], ["config/paper.yaml"]])
def test_our_configurations_have_points_of_every_figure(files):
    given = configuration([REPOSITORY / file for file in files], root=REPOSITORY)
    assert load(given, REPOSITORY).figures_without_points == frozenset()
