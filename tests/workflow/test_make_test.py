"""`make test` itself: it passes when everything passes, and otherwise ends with what did not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
CHECKS = ("ruff", "snakefmt", "snakemake", "mypy", "lint-imports", "pytest")


def make_test(folder: Path, **scripts: str) -> subprocess.CompletedProcess[str]:
    """Run the target with its set-up left out and every check a script: one that passes unless another is given."""
    tools = folder / ".venv/bin"
    tools.mkdir(parents=True)
    for check in CHECKS:
        script = tools / check
        script.write_text("#!/bin/sh\n" + scripts.get(check, ""))
        script.chmod(0o755)
    shutil.copy(REPOSITORY / "Makefile", folder)
    return subprocess.run(
        ["make", "-o", "test-environment", "-o", "test-tools", "test"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.workflow
def test_it_passes_when_every_check_passes(tmp_path: Path) -> None:
    done = make_test(tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {".venv", "Makefile"}


@pytest.mark.workflow
@pytest.mark.parametrize("part", ["tests/integration --ignore-glob", "test_slurm", "tests/unit"])
def test_what_failed_in_any_part_is_printed_last(part: str, tmp_path: Path) -> None:
    failing = (
        f'case "$*" in *"{part}"*) echo "FAILED this"; echo "1 failed"; exit 1;; *) echo "2 passed";; esac'
    )
    done = make_test(tmp_path, pytest=failing)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == "FAILED this"


@pytest.mark.workflow
def test_a_part_that_crashes_is_a_failure(tmp_path: Path) -> None:
    done = make_test(tmp_path, pytest='case "$*" in *tests/unit*) exit 3;; esac')
    assert done.returncode == 2


@pytest.mark.workflow
@pytest.mark.parametrize("check", [check for check in CHECKS if check != "pytest"])
def test_no_test_runs_after_a_check_that_fails(check: str, tmp_path: Path) -> None:
    done = make_test(tmp_path, **{check: "exit 1", "pytest": "echo ran"})
    assert done.returncode == 2
    assert "ran" not in done.stdout
