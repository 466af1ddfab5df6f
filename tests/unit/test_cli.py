"""The command ddlbench, as somebody calls it."""

import subprocess
import sys
from contextlib import contextmanager

import pytest
import yaml

from ddlbench.cli.main import main
from ddlbench.cli.results import summary
from tests.support.measurement_samples import a_repository

FIGURES = {
    "zhao2016_fig5": {
        "title": "Time over bandwidth",
        "x": "bandwidth_mbit",
        "y": "training_time_s",
        "lines": "model",
    },
    "zhao2016_fig6": {"title": "The same in the cloud", "x": "bandwidth_mbit", "y": "training_time_s"},
}


@pytest.fixture
def figure(tmp_path, monkeypatch):
    figure = a_repository(tmp_path)
    (tmp_path / "config/studies").mkdir(parents=True)
    config = {"results": "results", "studies": ["zhao2016"], "default_figures": ["zhao2016_fig5"]}
    (tmp_path / "config/config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "config/studies/zhao2016.yaml").write_text(yaml.safe_dump({"figures": FIGURES}))
    monkeypatch.chdir(tmp_path)
    return figure.relative_to(tmp_path)


def ddlbench(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "ddlbench.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )


def test_trace_prints_the_tree(figure, capsys):
    assert main(["trace", str(figure)]) == 0
    assert "└── " in capsys.readouterr().out


def test_trace_prints_a_figures_caption_as_plain_text(figure, capsys):
    caption = figure.with_name(f"{figure.name.split('.')[0]}.caption.rst")
    caption.write_text("**Time.** mlp, 10 \\* 2 workers.\n")
    assert main(["trace", str(figure)]) == 0
    assert capsys.readouterr().out.endswith("\n\nTime. mlp, 10 * 2 workers.\n")


def test_verify_without_a_file_checks_all_results_from_anywhere_in_the_repository(
    figure, capsys, monkeypatch
):
    monkeypatch.chdir("config")
    assert main(["verify"]) == 0
    assert capsys.readouterr().out.startswith("3 results verified: ")


def test_verify_names_the_changed_measurement_and_exits_with_1(figure, capsys, tmp_path):
    victim = min((tmp_path / "results/store").rglob("*.json")).relative_to(tmp_path)
    victim.write_bytes(victim.read_bytes().replace(b"381.5", b"391.5"))
    assert main(["verify", str(figure)]) == 1
    output = capsys.readouterr().out
    assert f"{victim}: has changed" in output
    assert "1 does not match" in output


@pytest.mark.parametrize("arguments", [[], ["forget"], ["trace"], ["trace", "no.svg"], ["verify", "no.svg"]])
def test_wrong_usage_exits_with_2(figure, arguments):
    assert main(arguments) == 2


def test_help_exits_with_0(capsys):
    assert main(["--help"]) == 0
    assert "trace" in capsys.readouterr().out


def test_an_error_is_a_message_without_a_stack_trace(figure):
    answer = ddlbench("trace", "Snakefile")
    assert answer.returncode == 1
    assert answer.stderr.startswith("ddlbench: Snakefile: no sidecar")
    assert "Traceback" not in answer.stderr


def test_nothing_to_verify_is_not_a_success(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["verify"]) == 2
    assert "no result to verify" in capsys.readouterr().err


def test_a_reader_that_left_early_is_no_error(figure):
    command = f"{sys.executable} -m ddlbench.cli trace {figure} | true"
    answer = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert answer.stderr == ""
    assert answer.returncode in (0, 141)


@pytest.mark.long
def test_the_summary_shows_figures_numbers_gaps_and_what_comes_next(figure, capsys):
    assert main(["summary"]) == 0
    output = capsys.readouterr().out
    for text in (
        "1 figure of 2 drawn",
        "results/figures/zhao2016_fig5.svg   Time over bandwidth",
        "training_time_s at bandwidth_mbit 400: conv2 70.31 [70.31, 70.31]; mlp 70.31 [70.31, 70.31]",
        "zhao2016: 1 point not available: no GPU here",
        "trace results/figures/zhao2016_fig5.svg",
        "zhao2016_fig6",
    ):
        assert text in output


@pytest.mark.long
def test_the_summary_ends_with_the_papers_claims(figure, capsys, tmp_path):
    (tmp_path / "config/claims").mkdir()
    (tmp_path / "config/claims/zhao2016.yaml").write_text(
        """
        slower: {says: It takes a minute., place: text, figure: zhao2016_fig5, quantity: training_time_s, test: value,
                 settings: [{model: mlp}], devices: cpu, paper: 60, tolerance_percent: 50}
        """
    )
    assert main(["summary"]) == 0
    assert "\n1 claim of the papers: " in capsys.readouterr().out
    assert main(["claims", "zhao2016"]) == 0
    assert "It takes a minute." in capsys.readouterr().out
    assert main(["claims", "zhao2061"]) == 2
    assert "did you mean 'zhao2016'" in capsys.readouterr().err


def test_the_summary_of_nothing_says_so(figure, capsys, tmp_path):
    config = tmp_path / "config/config.yaml"
    config.write_text(config.read_text().replace("results: results", "results: elsewhere"))
    assert main(["summary"]) == 0
    assert "0 figures of 2 drawn" in capsys.readouterr().out


@pytest.mark.parametrize(
    "settings", [{"studies": 3}, {"studies": [[]]}, {"default_figures": 3}, {"results": None}, {"name": []}]
)
def test_settings_that_are_none_end_in_no_trace(figure, tmp_path, monkeypatch, settings):
    monkeypatch.setattr(summary, "_answer", lambda *_: [])
    config = tmp_path / "config/config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | settings))
    assert main(["summary"]) == 0


@pytest.mark.parametrize("study", ["figures: [1, 2]", "figures: {zhao2016_fig5: 3}", "3"])
def test_a_study_that_is_none_has_no_figures_in_the_summary(figure, tmp_path, monkeypatch, study, capsys):
    monkeypatch.setattr(summary, "_answer", lambda *_: [])
    (tmp_path / "config/studies/zhao2016.yaml").write_text(study)
    assert main(["summary"]) == 0
    assert "0 figures of 0 drawn" in capsys.readouterr().out


def test_a_config_that_is_not_there_exits_with_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["summary"]) == 2
    assert "config/config.yaml: there is no such file" in capsys.readouterr().err


@pytest.mark.long
def test_the_summary_starts_without_what_is_slow_to_import(figure):
    script = """
import sys
from ddlbench.cli.main import main
from ddlbench.cli.results import summary
main(["summary"])
print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    slow = {"pandas", "numpy", "scipy", "matplotlib", "plotnine", "snakemake", "pyroute2", "jsonschema"}
    assert not slow & set(answer.stderr.split())


def test_a_path_that_is_too_long_for_any_file_is_refused_as_one_that_is_missing(capsys):
    assert main(["sign", "--key", "x" * 5000]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_a_profile_is_measured_while_nobody_else_measures(monkeypatch, capsys):
    events = []

    @contextmanager
    def alone(when_busy):
        events.append(when_busy)
        yield
        events.append("ended")

    monkeypatch.setattr("ddlbench.runs.machine_lock.alone_on_this_machine", alone)
    monkeypatch.setattr("ddlbench.probes.step_profile.profiled", lambda *_, **__: events.append("measured"))
    assert main(["profile", "mlp", "--batch", "8"]) == 0
    assert events == ["wait", "measured", "ended"]


def test_a_gpus_profile_in_tensorflow_is_refused_before_anything_starts(capsys):
    assert main(["profile", "mlp", "--batch", "8", "--devices", "gpu", "--framework", "tensorflow"]) == 2
    assert "--devices gpu needs --framework torch, not tensorflow" in capsys.readouterr().err
