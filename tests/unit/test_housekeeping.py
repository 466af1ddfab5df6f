"""Who makes a file keeps others from it while it lives, and what killed calls of Snakemake leave behind is removed."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.runs.file_locks import FILE, hold, holder
from ddlbench.runs.housekeeping import clean_up, is_in_use

pytestmark = pytest.mark.unit

HOLD = """
import sys
from ddlbench.errors import exit_on_error
from ddlbench.runs.file_locks import hold
with exit_on_error():
    hold(writes=sys.argv[1].split(), reads=sys.argv[2].split())
    print("held", flush=True)
    input()
"""


def started(folder: Path, writes: str, reads: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, writes, reads]
    return subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@contextmanager
def holding(folder: Path, writes: str = "a.csv", reads: str = "b.json") -> Iterator["subprocess.Popen[str]"]:
    with started(folder, writes, reads) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("writes", "reads", "contested"),
    [("a.csv", "", "a.csv"), ("", "a.csv", "a.csv"), ("b.json", "", "b.json"), ("c.csv", "b.json", None)],
    ids=["both write", "one reads", "the other reads", "both read"],
)
def test_two_calls_share_only_what_both_read(
    tmp_path: Path, writes: str, reads: str, contested: str | None
) -> None:
    with holding(tmp_path) as first, started(tmp_path, writes, reads) as second:
        held, told = second.communicate("\n")
        assert bool(held) == (contested is None)
        if contested:
            assert f"{contested}: another call of Snakemake (process {first.pid}) is making it" in told


def test_the_locks_of_a_killed_process_are_gone(tmp_path: Path) -> None:
    with holding(tmp_path) as first:
        assert holder(tmp_path / FILE) == first.pid
    assert holder(tmp_path / FILE) is None
    with holding(tmp_path) as second:
        assert holder(tmp_path / FILE) == second.pid


def test_where_there_are_no_locks_one_line_says_so_and_housekeeping_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def has_none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", has_none)
    monkeypatch.setattr(fcntl, "fcntl", has_none)
    os.close(hold(writes=["a.csv", "b.csv"], reads=["c.json"], file=tmp_path / FILE))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("this file system has no locks. Start only one Snakemake at a time.")
    assert holder(tmp_path / FILE) is None


def lock_of_snakemake(folder: Path) -> Path:
    lock = folder / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("results/figures/figure.svg\n")
    return lock


def script_of_snakemake(folder: Path) -> Path:
    script = folder / ".snakemake/scripts/tmp1234.measure_run.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.touch()
    return script


def test_locks_of_a_killed_snakemake_go_though_another_one_lives(tmp_path: Path) -> None:
    lock = lock_of_snakemake(tmp_path)
    with holding(tmp_path):
        assert "1 locks of a Snakemake that was killed" in clean_up(tmp_path)
    assert not lock.exists()


def test_scripts_of_a_killed_snakemake_go_when_nobody_works_there_any_more(tmp_path: Path) -> None:
    script = script_of_snakemake(tmp_path)
    with holding(tmp_path):
        clean_up(tmp_path)
        assert script.exists()
    assert "1 scripts of a Snakemake that was killed" in clean_up(tmp_path)
    assert not script.exists()


def test_a_snakemake_without_locks_of_ours_is_seen_by_its_process(tmp_path: Path) -> None:
    (tmp_path / "snakemake").write_text("print('started', flush=True); input()")
    pipe = subprocess.PIPE
    command = [sys.executable, "snakemake"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        script = script_of_snakemake(tmp_path)
        clean_up(tmp_path)
        assert script.exists()
        process.kill()
    assert not is_in_use(tmp_path)


def test_another_user_of_the_folder_can_open_its_locks(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        os.close(hold(writes=["a"], reads=[], file=tmp_path / "lock"))
    finally:
        os.umask(before)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666


def test_locks_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(DdlbenchError, match=r"lock: Is a directory\. Each call"):
        hold(writes=["a"], reads=[], file=tmp_path / "lock")
    (tmp_path / "file").touch()
    with pytest.raises(DdlbenchError, match="lock: Not a directory"):
        holder(tmp_path / "file/lock")
