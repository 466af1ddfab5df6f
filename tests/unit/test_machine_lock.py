"""One measurement at a time on a machine: a lock that ends with its process."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.runs import machine_lock
from ddlbench.runs.machine_lock import (
    alone_on_these_nodes,
    alone_on_this_machine,
    note_allocation,
    shared_folder,
)

HOLD = """
import sys
from pathlib import Path
from ddlbench.runs.machine_lock import alone_on_this_machine
with alone_on_this_machine(sys.argv[1], Path(sys.argv[2])):
    print("measuring", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "measuring.lock"


def started(file: Path, when_busy: str = "wait") -> "subprocess.Popen[str]":
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", HOLD, when_busy, str(file)], text=True, **pipes)


@pytest.fixture
def holder(file: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that measures."""
    process = started(file)
    assert process.stdout
    assert process.stdout.readline() == "measuring\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_measurement_is_refused_where_that_is_asked_for(file, holder):
    with pytest.raises(DdlbenchError) as refused, alone_on_this_machine("refuse", file):
        pass
    assert f"(process {holder.pid} of " in str(refused.value)
    assert f"in {os.getcwd()})" in str(refused.value)


def test_a_second_measurement_waits_and_says_for_whom_and_goes_on_when_the_first_is_killed(file, holder):
    second = started(file)
    assert second.stderr
    assert second.stdout
    assert (
        f"waiting: another measurement is running on this machine (process {holder.pid}"
        in second.stderr.readline()
    )
    holder.send_signal(signal.SIGKILL)
    assert second.stdout.readline() == "measuring\n"
    second.communicate("")
    assert second.returncode == 0


def test_others_may_be_ignored(file, holder):
    with alone_on_this_machine("ignore", file):
        assert holder.poll() is None


def test_one_after_another_need_not_wait(file):
    for _ in range(2):
        with alone_on_this_machine("refuse", file):
            pass


def test_all_users_can_open_the_lock_of_a_user_whose_files_are_private(file):
    before = os.umask(0o077)
    try:
        with alone_on_this_machine("refuse", file):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_lock_that_this_user_may_not_open_is_told_with_what_helps(file, monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(DdlbenchError, match=f"chmod 644 {file}"), alone_on_this_machine("wait", file):
        pass


def test_a_link_in_place_of_the_lock_is_not_followed(file, tmp_path):
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"), alone_on_this_machine("wait", file):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_the_lock_is_where_all_users_may_make_files_also_where_the_first_folder_is_roots_alone(tmp_path):
    roots, everybodys, missing = tmp_path / "roots", tmp_path / "everybodys", tmp_path / "missing"
    roots.mkdir(0o755)
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    assert shared_folder([missing, roots, everybodys]) == everybodys
    assert shared_folder([everybodys, roots]) == everybodys
    assert shared_folder([missing, roots]) == roots


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of locks of a call of Snakemake that was started in SLURM's job 7."""
    monkeypatch.setattr(machine_lock, "shared_folder", lambda: tmp_path)
    monkeypatch.setenv("DDLBENCH_ALLOCATION", "")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    note_allocation()
    return tmp_path


def test_runs_on_the_nodes_of_an_allocation_measure_one_at_a_time(folder):
    with (
        alone_on_this_machine("wait", folder / "ddlbench-measuring-7.lock"),
        pytest.raises(DdlbenchError, match="is running on the nodes of SLURM's job 7"),
        alone_on_these_nodes("refuse"),
    ):
        pass


def test_a_job_that_was_submitted_has_its_nodes_for_itself(folder, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    with alone_on_these_nodes("refuse"), alone_on_these_nodes("refuse"):
        assert not list(folder.iterdir())
