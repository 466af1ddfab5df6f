"""Two configurations side by side: each has its own results, and what both measure is measured once."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from tests.support.pipeline import Pipeline
from tests.support.remains import eventually
from tests.support.repository import dry_run, snakemake

FIGURE = "figures/tiny2000_fig1"
LARGER = {"grids": {"tiny2000": {"bandwidth": {"bandwidth_mbit": [100, 150, 200]}}}}


def files(root: Path, besides: str = "") -> dict[str, bytes]:
    """What lies below a folder of results, notes of calls and the folder `besides` aside."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and path.relative_to(root).parts[0] != besides
    }


def bandwidths(table: Path) -> list[float]:
    with table.open() as file:
        return [float(row["bandwidth_mbit"]) for row in csv.DictReader(file)]


def with_larger(pipeline: Pipeline) -> Pipeline:
    """The pipeline with another configuration of more points."""
    (pipeline.root / "config/larger.yaml").write_text(yaml.safe_dump(LARGER))
    return pipeline


@pytest.mark.long
def test_another_configuration_leaves_the_default_results_as_they_are(drawn_copy: Pipeline) -> None:
    two_scales = with_larger(drawn_copy)
    results = two_scales.root / "results"
    before, measured = files(results), two_scales.measurements()
    said = two_scales.run("tiny2000_fig1", "--configfile", "config/larger.yaml")
    assert "Results of this configuration: results/larger" in said
    assert before.items() <= files(results, besides="larger").items()
    assert bandwidths(results / f"{FIGURE}.csv") == [100, 200]
    assert bandwidths(results / f"larger/{FIGURE}.csv") == [100, 150, 200]

    new = two_scales.measurements().items() - measured.items()
    assert [json.loads(content)["point"]["bandwidth_mbit"] for _, content in new] == [150, 150]
    assert list((two_scales.root / "logs/larger/runs/tiny2000").glob("*/attempts.json"))
    assert dry_run(two_scales.root, "tiny2000_fig1") == {}
    assert dry_run(two_scales.root, "tiny2000_fig1", "--configfile", "config/larger.yaml") == {}
    verified = two_scales.ddlbench("verify")
    assert verified.returncode == 0, verified.stdout
    summary = two_scales.ddlbench("summary", "--configfile", "config/larger.yaml")
    assert f"results/larger/{FIGURE}.svg" in summary.stdout, summary.stderr

    table = results / "larger/tables/tiny2000_fig1.csv"
    table.write_text(table.read_text().replace("measured", "invented", 1))
    named = two_scales.ddlbench("verify").stdout
    mending = "snakemake --cores all results/larger/tables/tiny2000_fig1.csv --configfile config/larger.yaml"
    assert mending in named
    two_scales.run(*mending.split()[1:])
    assert "invented" not in table.read_text()
    assert before.items() <= files(results, besides="larger").items()


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        ((), "results"),
        (("fresh=true", "other_measurements=wait", "dilation=auto"), "results"),
        (("results=elsewhere",), "elsewhere"),
        (("dilation=2",), "results/dilation-2"),
        (("dilation=2", "results=elsewhere"), "elsewhere/dilation-2"),
        (("name=mine", "dilation=2"), "results/mine"),
        (("configuration=config/larger.yaml",), "results/larger"),
        (("configuration=config/larger.yaml", "dilation=2"), "results/larger-dilation-2"),
    ],
)
def test_a_change_on_the_command_line_has_a_folder_by_its_name(
    prepared: Pipeline, options: tuple[str, ...], folder: str
) -> None:
    two_scales = with_larger(prepared)
    answer = snakemake(
        two_scales.root, "tiny2000_fig1", "--dry-run", "--forceall", "--quiet", "host", "--config", *options
    )
    said = answer.stdout + answer.stderr
    assert answer.returncode == 0, said
    assert f" {folder}/{FIGURE}.svg," in said


def test_a_configuration_of_the_same_name_is_told_whose_the_results_are(prepared: Pipeline) -> None:
    two_scales = with_larger(prepared)
    refused = two_scales.attempt("--dry-run", "--configfile", "config/larger.yaml", "--config", "name=tables")
    assert refused.returncode != 0
    assert "'tables' is a folder or file of the default configuration's results" in refused.stdout
    two_scales.run("results/larger/datasets/digits-28x28x1.npz", "--configfile", "config/larger.yaml")
    (two_scales.root / "mine").mkdir()
    (two_scales.root / "mine/larger.yaml").write_text("dilation: 2\n")
    for options in (
        ("--configfile", "mine/larger.yaml"),
        ("--config", "name=larger"),
        ("--configfile", "config/larger.yaml", "--config", "dilation=2", "name=larger"),
    ):
        answer = two_scales.attempt("--dry-run", *options)
        assert answer.returncode != 0
        whose = "results/larger holds the results of another configuration (--configfile config/larger.yaml)"
        assert whose in answer.stdout
    (two_scales.root / "config/larger.yaml").rename(two_scales.root / "config/old.yaml")
    two_scales.run("--dry-run", "--configfile", "mine/larger.yaml")


@pytest.mark.long
def test_two_configurations_that_measure_the_same_run_at_once_leave_each_other_alone(
    prepared: Pipeline,
) -> None:
    """A run's attempts are its configuration's: a later attempt of the same run would end the earlier one.

    Measurements are shared, so the second may find nothing left to measure, and then makes no attempt.
    """
    prepared.configure({"measure": {"min_repetitions": 20, "max_repetitions": 20}})
    manifest = prepared.manifest("bandwidth")
    first = prepared.start(manifest)
    assert eventually(lambda: prepared.measurements() or first.poll() is not None)
    second = prepared.start(manifest.replace("results/", "results/other/"), "--config", "name=other")
    assert [first.wait(600), second.wait(600)] == [0, 0], prepared.said
    (of_first,) = (prepared.root / "logs/runs").glob("*/*/attempts.json")
    for file in (of_first, *(prepared.root / "logs/other/runs").glob("*/*/attempts.json")):
        assert [attempt["how"] for attempt in json.loads(file.read_text())] == ["done"]
