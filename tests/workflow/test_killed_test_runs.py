"""A test run that is killed leaves no process, no user and no folder."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.remains import eventually
from tests.support.repository import REPOSITORY
from tests.support.sandboxes import PYTHONPATH

FOLDERS = """
import time
from tests.support.vanishing import vanishing_folder

def test_waits():
    with vanishing_folder("ddlbench-test-") as folder:
        (folder / "file").touch()
        open({told!r}, "w").write(str(folder))
        time.sleep(3600)
"""
KERNEL = """
import time
from tests.support.uml import kernel

def test_waits():
    with kernel() as booted:
        open({told!r}, "w").write(str(booted._folder))
        time.sleep(3600)
"""


@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["one process", "several"])
@pytest.mark.parametrize(
    "test",
    [FOLDERS, pytest.param(KERNEL, marks=pytest.mark.needs("User-Mode Linux"))],
    ids=["folder", "kernel"],
)
@pytest.mark.long
def test_a_killed_test_run_leaves_nothing(test: str, processes: list[str], tmp_path: Path) -> None:
    told = tmp_path / "told"
    tests = tmp_path / "unit" / "test_that_waits.py"  # a test is marked by its folder
    tests.parent.mkdir()
    tests.write_text(test.format(told=str(told)))
    run = subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", str(tests), *processes, "-p", "no:cacheprovider"),
            *("-c", str(REPOSITORY / "pyproject.toml"), f"--rootdir={tmp_path}", "-p", "tests.conftest"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},  # the other kernel finds there what it runs
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert eventually(lambda: (told.exists() and told.read_text()) or run.poll() is not None)
        assert run.poll() is None
        theirs = psutil.Process(run.pid).children(recursive=True)
    finally:
        run.kill()
        run.wait()
    assert eventually(lambda: not Path(told.read_text()).exists())
    assert eventually(lambda: not any(each.is_running() for each in theirs))
