"""A mistake in the configuration is one clear message before anything starts: file, key, value, nearest valid name."""

import copy
import os
import re
import shutil
from typing import Any

import pytest

from ddlbench.errors import ConfigError
from ddlbench.plan import load
from tests.support.pipeline import Pipeline
from tests.support.repository import copy_of_the_repository
from tests.support.tiny_study import TINY_STUDY

STUDY = "config/studies/tiny2000.yaml: "
CONFIG = "config/config.yaml: "


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A working copy whose configuration each test writes anew."""
    return Pipeline(copy_of_the_repository(tmp_path_factory.mktemp("mistakes") / "ddlbench"))


def mistakes(checkout: Pipeline) -> str:
    """What is said of a configuration by whoever reads it: Snakemake too, as tests below show."""
    with pytest.raises(ConfigError) as caught:
        load(checkout.root / "config/config.yaml", checkout.root)
    return str(caught.value)


def refused(checkout: Pipeline, *arguments: str) -> str:
    """What is said of a configuration with which nothing starts."""
    answer = checkout.attempt(*arguments)
    assert answer.returncode != 0
    assert "Traceback" not in answer.stderr
    assert "Building DAG" not in answer.stderr
    assert not (checkout.root / "results").exists()
    return answer.stderr


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"mesure": {}}, "mesure: there is no such key (did you mean 'measure'?)"),
        ({"measure": {"max_steps": "many"}}, "measure.max_steps: 'many' is not a number of steps"),
        ({"measure": {"interval_percent": -1}}, "measure.interval_percent: -1 is not an interval"),
        ({"studies": ["tiny2001"]}, "studies[0]: 'tiny2001' is not a study (did you mean 'tiny2000'?)"),
        (
            {"default_figures": ["tiny2000_fig11"]},
            "default_figures[0]: 'tiny2000_fig11' is not a figure (did you mean 'tiny2000_fig1'?)",
        ),
        (
            {"grids": {"tiny2000": {"bandwith": {}}}},
            "grids.tiny2000.bandwith: 'bandwith' is not a grid of tiny2000 (did you mean 'bandwidth'?)",
        ),
    ],
    ids=["unknown key", "wrong type", "out of range", "study", "figure", "grid"],
)
def test_a_mistake_in_the_settings(checkout, settings, line):
    checkout.configure(settings)
    assert CONFIG + line in mistakes(checkout)


@pytest.mark.parametrize(
    ("grid", "line"),
    [
        ({"batch_sise": 32}, "batch_sise: there is no such key (did you mean 'batch_size'?)"),
        ({"workers": "two"}, "workers: 'two' is not a number of workers (expected a whole number >= 1"),
        (
            {"bandwidth_mbit": [100, -400]},
            "bandwidth_mbit[1]: -400 is not a bandwidth (expected a number > 0",
        ),
        ({"model": "mpl"}, "model: 'mpl' is not a model (did you mean 'mlp'?)"),
        ({"link": "lan2g"}, "link: 'lan2g' is not a link (did you mean 'lan-2g'?)"),
        ({"bandwidth_mbit": []}, "bandwidth_mbit: is an empty list, so the grid has no points"),
        ({"workers": [2, 3]}, "workers[1]: 3 workers need 3 hosts, but hosts.pair has 2"),
        ({"batch_size": 1}, "batch_size: a batch of 1 is too small for 2 workers"),
    ],
    ids=[
        "unknown key",
        "wrong type",
        "out of range",
        "model",
        "link",
        "no points",
        "too many hosts",
        "too small",
    ],
)
def test_a_mistake_in_a_grid(checkout, grid, line):
    study: dict[str, Any] = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"] |= grid
    checkout.configure(study=study)
    assert f"{STUDY}grids.bandwidth.{line}" in mistakes(checkout)


def test_a_mistake_on_the_command_line(checkout):
    checkout.configure()
    said = refused(checkout, "tiny2000_fig1", "--config", "fresh=perhaps")
    assert "fresh: 'perhaps' is not a switch (expected true or false)" in said


def test_a_mistake_in_another_configuration_file_is_reported_there(checkout):
    checkout.configure()
    (checkout.root / "config/mine.yaml").write_text("measure: {seed: -1}\n")
    (line,) = [
        line
        for line in refused(checkout, "--configfile", "config/mine.yaml").splitlines()
        if "measure.seed: -1 is not a seed" in line
    ]
    assert "config/mine.yaml" in line


def test_code_in_a_file_of_the_configuration_does_not_run(checkout, tmp_path):
    ran, evil = tmp_path / "ran", tmp_path / "evil.yaml"
    evil.write_text(f"__use_yte__: true\nfresh: ?open({str(ran)!r}, 'w').write('x')\n")
    checkout.configure()
    assert "__use_yte__: there is no such key" in refused(checkout, "--config", f"configuration={evil}")
    path = checkout.root / "config/config.yaml"
    path.write_text(evil.read_text() + path.read_text().replace("fresh:", "# fresh:"))
    assert "__use_yte__: there is no such key" in refused(checkout)
    assert not ran.exists()


@pytest.mark.parametrize(
    ("named", "line"),
    [
        (("no/such.yaml",), "no/such.yaml: there is no such file"),
        (("config",), "config: cannot be read (is no regular file)"),
        (("pipe",), "pipe: cannot be read (is no regular file)"),
        (("x" * 300,), "cannot be read (File name too long)"),
        (("config/config.yaml", "all"), "all: there is no such file. Targets come before --configfile"),
        (("evil.yaml",), "evil.yaml: __use_yte__ would have Snakemake run code, and configuration is data"),
    ],
    ids=["missing", "folder", "pipe", "too long", "target", "code"],
)
def test_what_configfile_names_is_checked_before_snakemake_opens_it(checkout, named, line):
    checkout.configure()
    if not (checkout.root / "pipe").exists():
        os.mkfifo(checkout.root / "pipe")
    ran = checkout.root / "ran"
    (checkout.root / "evil.yaml").write_text(
        f"__use_yte__: true\nfresh: ?open({str(ran)!r}, 'w').write('x')\n"
    )
    said = refused(checkout, "--configfile", *named)
    assert line in said
    assert "Traceback" not in said
    assert not ran.exists()


@pytest.mark.parametrize(
    "results", ["../../x", "/tmp/elsewhere", ".", "src", ".git/x", "a\nb", "a{b}", "~/x", "Snakefile/x"]
)
def test_results_lie_below_the_repository_and_in_none_of_its_own_folders(checkout, results):
    checkout.configure({"results": results})
    before = sorted(checkout.root.rglob("*"))
    assert "config/config.yaml: results: " in refused(checkout)
    assert [
        path for path in checkout.root.rglob("*") if path not in before and ".snakemake" not in path.parts
    ] == []


def test_fewer_cores_than_one_are_refused(checkout):
    checkout.configure()
    assert "--cores -1: at least one core is needed" in refused(checkout, "--cores", "-1")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("results/probes/point_to_point/gigabit-k0-tcp.csv", "there is no probe"),
        ("results/probes/collectives/gigabit-k1-99h-gloo.csv", "there is no probe"),
        ("results/datasets/synthetic-99999x99999x3.npz", "there is no data set"),
        ("results/runs/tiny2000/nope.json", "there is no run 'tiny2000/nope'"),
    ],
)
def test_what_nothing_asks_for_is_refused_while_planning(checkout, target, why):
    checkout.configure()
    answer = checkout.attempt("--dry-run", target)
    shutil.rmtree(checkout.root / "results", ignore_errors=True)
    assert answer.returncode != 0
    assert why in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("config/config.yaml", r"config/config.yaml, line \d+, column \d+: is not valid YAML"),
        ("config/links.yaml", r"config/links.yaml, line \d+, column \d+: is not valid YAML"),
        (
            "config/studies/tiny2000.yaml",
            r"config/studies/tiny2000.yaml, line 2, column \d+: is not valid YAML",
        ),
    ],
)
def test_a_file_that_is_no_yaml_is_named(checkout, file, told):
    checkout.configure()
    path = checkout.root / file
    good = path.read_text()
    path.write_text("key: [1, 2\n" + good)
    try:
        assert re.search(told, refused(checkout))
    finally:
        path.write_text(good)


def test_all_mistakes_come_in_one_message(checkout):
    study: dict[str, Any] = copy.deepcopy(TINY_STUDY)
    study["grids"]["latency"]["model"] = "mpl"
    checkout.configure({"measure": {"seed": -1}}, study)
    said = refused(checkout)
    assert f"{STUDY}grids.latency.model: " in said
    assert f"{CONFIG}measure.seed: " in said


@pytest.mark.parametrize("target", ["all", "recommend_measure"])
def test_a_dilation_that_this_machine_cannot_have_is_refused_before_any_job_with_those_that_it_can(
    tmp_path, target
):
    pipeline = Pipeline(copy_of_the_repository(tmp_path / "ddlbench"))
    asked = {
        "question": {"bandwidth_mbit": 100, "latency_ms": 0},
        "sureness_percent": 90,
        "budget_points": 1,
        "budget_min": 1,
    }
    pipeline.configure({"dilation": 77, "recommend": asked})
    answer = pipeline.attempt(target)
    assert answer.returncode != 0
    assert "dilation: 77 cannot be had with 2 hosts of 1 vCPU" in answer.stderr
    assert "possible are auto" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (pipeline.root / ".environments").exists()
    assert not (pipeline.root / "results/datasets").exists()
