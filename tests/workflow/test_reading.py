"""Reading the Snakefile changes nothing on disk, whatever Snakemake is asked, also beside a sweep that is under way."""

import os
import signal
from pathlib import Path

import pytest

from ddlbench.files import sha256_file
from tests.support.pipeline import Pipeline
from tests.support.remains import eventually, processes
from tests.support.repository import snakemake

# What Snakemake itself writes where it works, and what a sweep under way writes.
OF_SNAKEMAKE = (".snakemake",)
QUESTIONS = {
    "a dry run": ("--dry-run",),
    "a dry run of everything": ("--dry-run", "all_figures"),
    "a dry run that measures afresh": ("--dry-run", "--config", "fresh=true"),
    "the linter": ("--lint",),
    "the summary": ("--summary",),
    "the graph": ("--dag",),
    "unlocking": ("--unlock",),
}


def contents(root: Path) -> dict[str, str]:
    """The hash of every file, and the target of every link, that Snakemake did not write for itself."""
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else sha256_file(path)
        for path in sorted(root.rglob("*"))
        if path.relative_to(root).parts[0] not in OF_SNAKEMAKE and (path.is_symlink() or path.is_file())
    }


@pytest.fixture(scope="module")
def broken(drawn: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline with all that a start would repair: a lost manifest, and an environment that could not be made."""
    pipeline = drawn.copy(tmp_path_factory.mktemp("broken") / "ddlbench")
    (pipeline.root / pipeline.manifest("bandwidth")).unlink()
    failed = pipeline.root / ".environments/mxnet/environment.json"
    failed.parent.mkdir()
    failed.write_text('{"name": "mxnet", "failure": "it was not there"}')
    return pipeline


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("scale", ["config", "paper"])
def test_a_question_changes_nothing(broken: Pipeline, question: tuple[str, ...], scale: str) -> None:
    before = contents(broken.root)
    options = ("--configfile", "config/paper.yaml") if scale == "paper" else ()
    snakemake(broken.root, *question, *options)
    assert contents(broken.root) == before


def test_a_report_changes_nothing_but_itself(drawn_copy: Pipeline) -> None:
    before = contents(drawn_copy.root)
    drawn_copy.run("tiny2000_fig1", "--report", "page.html")
    assert contents(drawn_copy.root).keys() - before.keys() == {"page.html"}
    assert contents(drawn_copy.root).items() >= before.items()


def test_what_is_lost_is_seen_and_made_again(broken: Pipeline, tmp_path: Path) -> None:
    pipeline = broken.copy(tmp_path / "ddlbench")
    before = pipeline.measurements()
    pipeline.run("tiny2000_fig1")
    assert pipeline.measurements() == before
    assert (pipeline.root / pipeline.manifest("bandwidth")).exists()
    assert "Nothing to be done" in pipeline.run("tiny2000_fig1")


def test_questions_do_not_disturb_a_sweep_and_a_second_one_is_refused(prepared: Pipeline) -> None:
    prepared.configure({"measure": {"min_repetitions": 400, "max_repetitions": 400}})
    target = prepared.manifest("bandwidth")
    sweep = prepared.start(target)
    try:
        assert eventually(lambda: prepared.measurements() or sweep.poll() is not None)
        for question in QUESTIONS.values():
            snakemake(prepared.root, *question)
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
    prepared.configure()
    prepared.run(target)
