"""Every target of the shipped configurations can be asked for by its name, and a name that is none is told so."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ddlbench.plan import load
from ddlbench.recommender.active.options import options_of
from tests.support.repository import (
    REPOSITORY,
    copy_of_the_repository,
    dry_run,
    environment,
    needed_rules,
    snakemake,
)

PLAN = load(REPOSITORY / "config/config.yaml", REPOSITORY)
FIGURES = list(PLAN.figures)
OF_PROBES = [name for name, figure in PLAN.figures.items() if figure.probes]
OF_GRIDS = [name for name, figure in PLAN.figures.items() if figure.grids]
OF_FAULTS = [name for name, figure in PLAN.figures.items() if figure.faults]
TABLES = {"telemetry": "telemetry_table"}  # what tabulates for figures of a kind; the others have `table`
EXAMPLES = sorted((REPOSITORY / "config/examples").glob("*.yaml"))


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as somebody has it who has just cloned it."""
    return copy_of_the_repository(tmp_path_factory.mktemp("clone") / "ddlbench")


@pytest.fixture(scope="module")
def needed(checkout: Path) -> dict[str, dict[str, int]]:
    """How many jobs of each rule every figure needs."""
    return needed_rules(checkout, "all_figures")


def test_a_figure_can_be_asked_for_by_its_name(checkout, needed):
    assert dry_run(checkout, OF_GRIDS[0]) == needed[OF_GRIDS[0]]


@pytest.mark.parametrize("figure", OF_GRIDS)
def test_a_figure_of_grids_needs_its_table_and_the_environments_of_its_points(needed, figure):
    jobs = needed[figure]
    assert jobs[figure] == jobs[TABLES.get(PLAN.figures[figure].kind, "table")] == 1
    assert jobs["measure"] >= 1
    assert not {other for other in FIGURES if other != figure} & jobs.keys()
    points = [point for run in PLAN.runs_of(figure) for point in PLAN.measurable_points(run.id)]
    assert jobs["environment"] == len({point.environment for point in points})


@pytest.mark.parametrize("figure", OF_PROBES)
def test_a_figure_of_probes_needs_them_and_trains_nothing(needed, figure):
    assert needed[figure] == {figure: 1, "point_to_point": len(PLAN.figures[figure].probes)}


@pytest.mark.parametrize("figure", OF_FAULTS)
def test_a_figure_of_faults_needs_a_table_for_each_of_its_points_and_what_they_train_with(needed, figure):
    points = [fault.point for fault in PLAN.figures[figure].faults]
    assert needed[figure] == {
        figure: 1,
        "faults": len(points),
        "dataset": len({point.dataset_key for point in points}),
        "environment": len({point.environment for point in points}),
    }


def test_a_probe_by_ucx_needs_no_framework(checkout):
    table = "results/probes/point_to_point/gigabit-k1-ucx.csv"
    assert dry_run(checkout, table) == {"point_to_point": 1}


def test_all_probes_probes_every_link_that_is_asked_for(checkout):
    messages, collectives = PLAN.settings.probes.point_to_point, PLAN.settings.probes.collectives
    assert dry_run(checkout, "all_probes") == {
        "all_probes": 1,
        "environment": 1,
        "point_to_point": len(messages.links) * len(messages.transports),
        "collectives": len(collectives.links) * len(collectives.hosts),
    }


def test_measuring_for_a_choice_needs_the_environments_of_all_its_options(checkout):
    environments = {point.environment for point in options_of(PLAN, PLAN.settings.recommend)}
    assert len(environments) > 1
    assert dry_run(checkout, "recommend_measure")["environment"] == len(environments)


def test_all_makes_the_default_figures_and_is_what_nothing_means(checkout):
    wanted = yaml.safe_load((checkout / "config/config.yaml").read_text())["default_figures"]
    jobs = dry_run(checkout, "all")
    assert {rule for rule in jobs if rule in FIGURES} == set(wanted)
    assert dry_run(checkout) == jobs


@pytest.mark.parametrize("options", [(), ("--configfile", "config/paper.yaml")], ids=["laptop", "paper"])
def test_all_figures_makes_every_figure(checkout, options):
    jobs = dry_run(checkout, "all_figures", *options)
    assert {rule for rule in jobs if rule in FIGURES} == set(FIGURES)
    kinds = [PLAN.figures[figure].kind for figure in OF_GRIDS]
    assert jobs["telemetry_table"] == kinds.count("telemetry")
    assert jobs["table"] == len(kinds) - kinds.count("telemetry")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_makes_its_default_figures(checkout, example):
    wanted = yaml.safe_load(example.read_text())["default_figures"]
    jobs = dry_run(checkout, "all", "--configfile", str(example.relative_to(REPOSITORY)))
    assert all(jobs[figure] == 1 for figure in wanted)
    assert jobs["table"] == len(wanted)
    assert jobs.get("measure", 0) + jobs.get("measure_on_nodes", 0) >= 1


def test_a_bare_snakemake_finds_its_profile(checkout):
    answer = snakemake(checkout, "--dry-run")
    assert answer.returncode == 0, answer.stderr
    assert "Using workflow specific profile profiles/default" in answer.stderr


def test_a_bare_dry_run_counts_the_jobs(checkout):
    answer = snakemake(checkout, "--dry-run")
    counted = dict(re.findall(r"^(\w+) +(\d+)$", answer.stdout + answer.stderr, re.MULTILINE))
    assert {name: int(count) for name, count in counted.items() if name != "total"} == dry_run(checkout)


def test_jobs_of_slurm_have_the_processors_of_their_nodes_however_few_this_machine_has(checkout):
    here = min(os.sched_getaffinity(0))
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "progress"),
            *("--profile", "profiles/slurm", "--configfile", "config/examples/cluster.yaml"),
        ],
        cwd=checkout,
        env=environment(checkout),
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, [here]),
    )
    said = answer.stdout + answer.stderr
    assert answer.returncode == 0, said
    of_jobs = re.findall(r"rule measure_on_nodes:.*?threads: (\d+)", said, re.DOTALL)
    example = yaml.safe_load((checkout / "config/examples/cluster.yaml").read_text())
    settings = yaml.safe_load((checkout / "config/config.yaml").read_text()) | example
    plan = load(settings, checkout, scheduler="slurm")
    assert set(map(int, of_jobs)) == {
        point.vcpus for run in plan.runs_of("cluster2026_ethernet") for point in run.points
    }


def test_a_dry_run_changes_nothing_that_was_measured(checkout):
    assert not (checkout / "results/store").exists()
    assert not (checkout / "results/figures").exists()


def test_only_pictures_of_the_page_need_chromium(checkout, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "git", "sh"):
        programs.joinpath(name).symlink_to(str(shutil.which(name)))
    without = environment(checkout) | {"PATH": str(programs)}
    others = snakemake(checkout, "all_figures", "--dry-run", "--quiet", env=without)
    assert others.returncode == 0, others.stderr
    assert "hromium" not in others.stdout + others.stderr
    answer = snakemake(checkout, "anwar2021_fig16", "--cores", "1", env=without)
    assert answer.returncode == 2
    assert "apt-get install chromium" in answer.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("zhao2016_fig55", "there is no figure 'zhao2016_fig55' (did you mean 'zhao2016_fig5'?)"),
        ("anwar2021_tabel4", "there is no figure 'anwar2021_tabel4' (did you mean 'anwar2021_table4'?)"),
        ("al_figures", "No rule to produce al_figures"),
    ],
)
def test_a_target_that_does_not_exist_is_named(checkout, wrong, told):
    answer = snakemake(checkout, "--cores", "2", wrong)
    assert answer.returncode != 0
    assert told in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (checkout / "results/store").exists()


def test_a_part_of_a_grid_leaves_the_figures_of_its_other_part_undrawn(checkout, tmp_path):
    part = tmp_path / "part.yaml"
    part.write_text("grids: {shi2019: {ring: {workers: [1, 2]}}}")
    files = ("--cores", "2", "--configfile", "config/paper.yaml", str(part))
    others = snakemake(checkout, "all_figures", *files, "--dry-run")
    assert others.returncode == 0, others.stderr
    assert "shi2019_fig4_16" in others.stdout
    assert "shi2019_fig4_17" not in others.stdout
    asked = snakemake(checkout, "shi2019_fig4_17", *files)
    assert asked.returncode == 2
    assert asked.stderr.splitlines()[-1].endswith("the values that figure shi2019_fig4_17 shows")
