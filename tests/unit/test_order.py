"""The order in which runs are measured, with the default configuration."""

from pathlib import Path

import pytest

from ddlbench.plan import Plan, load
from ddlbench.plan.config_files import configuration
from ddlbench.plan.run import GroupKey
from ddlbench.runs.order import FIRST, priorities

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plan() -> Plan:
    settings = configuration([], {}, root=ROOT).settings
    return load(settings, ROOT)


def test_the_figure_that_needs_the_fewest_points_is_complete_first(plan: Plan) -> None:
    priority = priorities(plan)
    figures = plan.default_figures
    needed = {name: {run.id for run in plan.runs_of(name)} for name in figures}
    first = max(figures, key=lambda name: min(priority[run] for run in needed[name]))
    ahead = {run.id for run in plan.runs if priority[run.id] >= min(priority[each] for each in needed[first])}
    assert points(plan, needed[first]) == min(points(plan, needed[name]) for name in figures)
    assert groups(plan, ahead) == groups(plan, needed[first])


def test_what_no_default_figure_needs_comes_after_what_one_does(plan: Plan) -> None:
    priority = priorities(plan)
    needed = groups(plan, {run.id for name in plan.default_figures for run in plan.runs_of(name)})
    of_needed = [priority[run.id] for run in plan.runs if (run.study, run.key) in needed]
    of_others = [priority[run.id] for run in plan.runs if (run.study, run.key) not in needed]
    assert 0 <= max(of_others) < min(of_needed) <= max(of_needed) < FIRST


def test_runs_that_one_session_measures_have_one_priority(plan: Plan) -> None:
    priority = priorities(plan)
    for group in groups(plan, set(priority)):
        assert len({priority[run.id] for run in plan.runs if (run.study, run.key) == group}) == 1


def groups(plan: Plan, runs: set[str]) -> set[tuple[str, GroupKey]]:
    return {(run.study, run.key) for run in plan.runs if run.id in runs}


def points(plan: Plan, runs: set[str]) -> int:
    """The points of the sessions that measure these runs."""
    of_session = groups(plan, runs)
    return sum(len(run.points) for run in plan.runs if (run.study, run.key) in of_session)
