"""`make check`, `make test` and `make test-all` themselves: each passes when all that it runs passes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.repository import REPOSITORY

CHECKS = ("ruff", "snakefmt", "snakemake", "mypy", "lint-imports", "pytest", "python")
TELLS = 'echo "$(basename "$0") $*" >>asked; '


def make(target: str, folder: Path, **scripts: str) -> "subprocess.CompletedProcess[str]":
    """Run a target with its set-up left out and every check a script: one that passes unless another is given."""
    tools = folder / ".venv/bin"
    tools.mkdir(parents=True)
    for check in CHECKS:
        script = tools / check
        script.write_text("#!/bin/sh\n" + TELLS + scripts.get(check, ""))
        script.chmod(0o755)
    shutil.copy(REPOSITORY / "Makefile", folder)
    return subprocess.run(
        ["make", "-o", "test-environment", "-o", "test-tools", target],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=800,
    )


def asked_of_pytest(folder: Path) -> list[str]:
    """What pytest was called with, in order."""
    calls = (folder / "asked").read_text().splitlines()
    return [call.removeprefix("pytest ") for call in calls if call.startswith("pytest ")]


def test_check_runs_the_unit_tests_alone(tmp_path: Path) -> None:
    assert make("check", tmp_path).returncode == 0
    (unit,) = asked_of_pytest(tmp_path)
    assert unit.startswith("tests/unit ")


def test_test_all_runs_what_test_runs_and_then_what_that_left_out(tmp_path: Path) -> None:
    assert make("test-all", tmp_path).returncode == 0
    unit, ordinary, rest = asked_of_pytest(tmp_path)
    assert unit.startswith("tests/unit ")
    _, processes, selected = ordinary.split(maxsplit=2)
    assert selected.endswith(" --ordinary")
    _, more_processes, others = rest.split(maxsplit=2)  # as most of these wait
    assert others == selected.replace("--ordinary", "--left-out")
    assert int(more_processes) > int(processes)
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "python -m benchmarks.torture --short"
    assert {path.name for path in tmp_path.iterdir()} == {".venv", "Makefile", "asked"}


@pytest.mark.parametrize("part", ["tests/unit", "--ordinary", "--left-out"])
def test_a_part_that_fails_is_a_failure_of_all(part: str, tmp_path: Path) -> None:
    assert make("test-all", tmp_path, pytest=f'case "$*" in *{part}*) exit 3;; esac').returncode == 2


@pytest.mark.parametrize("check", [check for check in CHECKS if check != "pytest"])
def test_no_test_runs_after_a_check_that_fails(check: str, tmp_path: Path) -> None:
    assert make("test", tmp_path, **{check: "exit 1"}).returncode == 2
    assert asked_of_pytest(tmp_path) == []


def test_no_environment_is_made_anew_under_a_snakemake_that_works_with_it(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(REPOSITORY / name, tmp_path)
    tool = tmp_path / ".venv/bin/snakemake"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\nread until_it_may_end\n")
    tool.chmod(0o755)
    make = ["make", "-o", "python", "PYTHON=false", "environment"]
    with subprocess.Popen([tool], cwd=tmp_path, stdin=subprocess.PIPE) as works:
        refused = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert refused.returncode == 2
        assert f"process {works.pid}. Start again when that has ended." in refused.stderr
        assert tool.exists()
        works.communicate(b"\n")
    subprocess.run(make, cwd=tmp_path, capture_output=True, timeout=60)
    assert not tool.exists()
