"""Commands that work with the configuration that Snakemake had: several files, and values on the command line."""

import pytest
import yaml

from ddlbench.cli.main import main
from ddlbench.cli.results import summary
from ddlbench.plan.config_files import configuration
from ddlbench.runs.owner import claim, owner, owner_of
from tests.support.small_study import small_repository


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A checkout with two files over its default configuration."""
    settings, _ = small_repository(tmp_path)
    (tmp_path / "config/config.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(summary, "_answer", lambda *words: [f"asked: {' '.join(words)}"])
    for name, settings in {
        "first": {"measure": {"trainings": 4}},
        "second": {"measure": {"seed": 7}},
    }.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


def test_check_takes_several_files_as_snakemake_does(capsys):
    assert main(["check", "first.yaml", "second.yaml"]) == 0
    assert capsys.readouterr().out.startswith("config/config.yaml with first.yaml with second.yaml: ")


def test_the_last_file_counts_and_a_value_of_the_command_line_more(capsys):
    assert main(["check", "first.yaml", "--configfile", "second.yaml", "--config", "dilation=never"]) == 2
    assert "dilation: 'never' is not a time dilation" in capsys.readouterr().err


def test_the_summary_is_of_the_results_that_snakemake_made_with_the_same_options(root, capsys):
    (root / "results/trial/figures").mkdir(parents=True)
    (root / "results/trial/figures/small2000_fig1.svg").touch()
    options = ["--configfile", "first.yaml", "second.yaml", "--config", "dilation=8", "name=trial"]
    assert main(["summary", *options]) == 0
    output = capsys.readouterr().out
    assert "results/trial/figures/small2000_fig1.svg" in output
    assert f"asked: claims {' '.join(options)}\n" in output
    assert f"claims STUDY {' '.join(options)}\n" in output
    assert "config/paper.yaml" not in output


def test_a_value_without_a_key_is_refused(capsys):
    assert main(["claims", "--config", "first.yaml"]) == 2
    assert (
        "--config first.yaml: expected KEY=VALUE; files are named by --configfile" in capsys.readouterr().err
    )


def test_a_name_after_the_files_is_told_to_come_before_them(capsys):
    assert main(["doctor", "--configfile", "first.yaml", "small2000_fig1"]) == 2
    said = capsys.readouterr().err
    assert (
        "small2000_fig1: there is no such file. Names of figures or studies come before --configfile" in said
    )


def test_a_folder_of_results_tells_the_options_that_named_it(root):
    asked = configuration([root / "first.yaml"], {"dilation": 8, "name": "trial"}, root=root)
    claim(root / "results/trial", owner(asked, root))
    found = owner_of(root / "results/trial")
    assert found is not None
    assert found.options() == "--configfile first.yaml --config dilation=8 name=trial"
    assert found == owner(configuration([root / "first.yaml"], {"dilation": 8}, root=root), root)
