"""Reading the Snakefile changes nothing on disk, whatever Snakemake is asked, also beside a sweep that is under way."""

import os
import signal
from itertools import cycle
from pathlib import Path

import pytest
import yaml

from ddlbench.files import sha256_file
from tests.support.pipeline import Pipeline
from tests.support.remains import eventually, processes
from tests.support.repository import snakemake
from tests.support.tiny_study import SLOW_STUDY

# What Snakemake itself writes whatever it is asked: its own log, and when it last looked at which file.
OF_SNAKEMAKE = (".snakemake/log", ".snakemake/iocache")
pytestmark = pytest.mark.long
QUESTIONS = {
    "a dry run": ("--dry-run",),
    "a dry run of everything": ("--dry-run", "all_figures"),
    "a dry run that measures afresh": ("--dry-run", "--config", "fresh=true"),
    "a dry run of everything again": ("--dry-run", "--forceall"),
    "the linter": ("--lint",),
    "the summary": ("--summary",),
    "the graph": ("--dag",),
    "unlocking": ("--unlock",),
}
SCALES = {
    "default": (),
    "larger": ("--configfile", "config/larger.yaml"),  # which asks for more points and repetitions
    "changed": ("--config", "dilation=2"),
    "papers": ("--configfile", "config/paper.yaml"),  # whose studies these checkouts lack
}
LARGER = {
    "measure": {"max_repetitions": 3},
    "grids": {"tiny2000": {"bandwidth": {"bandwidth_mbit": [100, 150, 200]}}},
}


def contents(root: Path) -> dict[str, str]:
    """The hash of every file, and the target of every link, that Snakemake did not write for itself."""
    return {
        name: str(path.readlink()) if path.is_symlink() else sha256_file(path)
        for path in sorted(root.rglob("*"))
        if not (name := str(path.relative_to(root))).startswith(OF_SNAKEMAKE)
        and (path.is_symlink() or path.is_file())
    }


@pytest.fixture(scope="module")
def broken(drawn: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline with all that a start would repair: a lost manifest, and an environment that could not be made."""
    pipeline = drawn.copy(tmp_path_factory.mktemp("broken") / "ddlbench")
    (pipeline.root / pipeline.manifest("bandwidth")).unlink()
    failed = pipeline.root / ".environments/mxnet/environment.json"
    failed.parent.mkdir()
    failed.write_text('{"name": "mxnet", "failure": "it was not there"}')
    (pipeline.root / "config/larger.yaml").write_text(yaml.safe_dump(LARGER))
    return pipeline


@pytest.mark.parametrize("scale", SCALES)
def test_a_question_changes_nothing(broken: Pipeline, scale: str) -> None:
    before = contents(broken.root)
    for question in QUESTIONS.values():
        said = snakemake(broken.root, *question, *SCALES[scale])
        is_refused = scale == "papers" or "--lint" in question  # which ends so if it has something to say
        assert (said.returncode == 0) != is_refused, said.stderr
        assert contents(broken.root) == before, question


@pytest.mark.parametrize("scale", ["default", "larger"])
def test_a_report_changes_nothing_but_itself(broken: Pipeline, tmp_path: Path, scale: str) -> None:
    pipeline = broken.copy(tmp_path / "ddlbench")
    pipeline.run("tiny2000_fig1", *SCALES[scale])
    before = contents(pipeline.root)
    pipeline.run("tiny2000_fig1", "--report", "page.html", *SCALES[scale])
    assert contents(pipeline.root).keys() - before.keys() == {"page.html"}
    assert contents(pipeline.root).items() >= before.items()


def test_what_is_lost_is_seen_and_made_again(broken: Pipeline, tmp_path: Path) -> None:
    pipeline = broken.copy(tmp_path / "ddlbench")
    before = pipeline.measurements()
    pipeline.run("tiny2000_fig1")
    assert pipeline.measurements() == before
    assert (pipeline.root / pipeline.manifest("bandwidth")).exists()
    assert "Nothing to be done" in pipeline.run("tiny2000_fig1")


def test_questions_do_not_disturb_a_sweep_and_a_second_one_is_refused(prepared: Pipeline) -> None:
    prepared.configure({"measure": {"min_repetitions": 1000, "max_repetitions": 1000}}, SLOW_STUDY)
    target = prepared.manifest("bandwidth")
    sweep = prepared.start(target)
    try:
        assert eventually(lambda: prepared.measurements() or sweep.poll() is not None)
        for question, scale in zip(QUESTIONS.values(), cycle(("default", "changed"))):
            snakemake(prepared.root, *question, *SCALES[scale])
        assert sweep.poll() is None, prepared.said
        second = prepared.attempt(target)
        assert second.returncode != 0
        assert f"another call of Snakemake (process {sweep.pid}) is making it" in second.stderr
        kept = len(prepared.measurements())
        assert eventually(lambda: len(prepared.measurements()) > kept or sweep.poll() is not None)
        assert sweep.poll() is None, prepared.said
    finally:
        for process in processes(prepared.root):
            os.kill(process, signal.SIGKILL)
        sweep.wait()
    assert eventually(lambda: not processes(prepared.root))
    prepared.configure(study=SLOW_STUDY)
    prepared.run(target)
