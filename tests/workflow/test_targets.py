"""Every target of the shipped configurations can be asked for by its name, and a name that is none is told so."""

from pathlib import Path

import pytest
import yaml

from conftest import REPOSITORY, copy_of_the_repository, dry_run, snakemake
from ddlbench.plan import load

FIGURES = list(load(REPOSITORY / "config/config.yaml", REPOSITORY).figures)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as somebody has it who has just cloned it."""
    return copy_of_the_repository(tmp_path_factory.mktemp("clone") / "ddlbench")


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_can_be_asked_for_by_its_name(checkout, figure):
    jobs = dry_run(checkout, figure)
    assert jobs[figure] == jobs["table"] == 1
    assert jobs["measure"] >= 1
    assert not {other for other in FIGURES if other != figure} & jobs.keys()


def test_all_makes_the_default_figures_and_is_what_nothing_means(checkout):
    wanted = yaml.safe_load((checkout / "config/config.yaml").read_text())["default_figures"]
    jobs = dry_run(checkout, "all")
    assert {rule for rule in jobs if rule in FIGURES} == set(wanted)
    assert dry_run(checkout) == jobs


@pytest.mark.parametrize("options", [(), ("--configfile", "config/paper.yaml")], ids=["laptop", "paper"])
def test_all_figures_makes_every_figure(checkout, options):
    jobs = dry_run(checkout, "all_figures", *options)
    assert {rule for rule in jobs if rule in FIGURES} == set(FIGURES)
    assert jobs["table"] == len(FIGURES)


def test_the_profile_of_make_run_is_a_valid_one(checkout):
    answer = snakemake(checkout, "--dry-run", "--profile", "profiles/laptop")
    assert answer.returncode == 0, answer.stderr


def test_a_dry_run_changes_nothing_that_was_measured(checkout):
    assert not (checkout / "results/store").exists()
    assert not (checkout / "results/figures").exists()


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


def test_the_linter_of_snakemake_has_nothing_to_say(checkout):
    answer = snakemake(checkout, "--lint")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Congratulations" in answer.stdout + answer.stderr
