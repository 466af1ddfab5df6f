"""`ddlbench emulate` told something wrong: a message and an exit code, before anything starts."""

from pathlib import Path

import pytest

from ddlbench.cli.main import main
from ddlbench.emulate.emulation import Emulated, HostEnd
from ddlbench.errors import DiskFull
from ddlbench.runs import machine_lock


@pytest.mark.parametrize(
    ("arguments", "code", "wrong"),
    [
        (["--", "true"], 2, "expected one of --link NAME, --sites NAME, and --bandwidth-mbit N"),
        (["--latency-ms", "1", "--", "true"], 2, "expected one of --link NAME"),
        (["--link", "gigabit", "--bandwidth-mbit", "5", "--", "true"], 2, "expected one of --link NAME"),
        (["--link", "gigabyte", "--", "true"], 2, "has no link 'gigabyte' (did you mean 'gigabit'?)"),
        (["--sites", "two-cloud", "--", "true"], 2, "has no sites 'two-cloud'"),
        (["--hosts", "1", "--link", "gigabit", "--", "true"], 2, "1 is not a number of hosts"),
        (["--bandwidth-mbit", "nan", "--", "true"], 2, "nan is not a bandwidth"),
        (["--loss-percent", "100", "--", "true"], 2, "100 is not a loss"),
        (["--link", "gigabit"], 2, "the following arguments are required"),
        (["--link", "gigabit", "--dilation", "1.5", "--", "true"], 2, "dilation: 1.5 cannot be had"),
        (["--link", "gigabit", "--", "no-such-command"], 127, "'no-such-command' was not found"),
        (["--link", "gigabit", "--", "./no-such-file"], 127, "there is no such file"),
        (["--link", "gigabit", "--", "/etc/passwd"], 126, "/etc/passwd is not executable"),
    ],
)
def test_what_cannot_be_is_told(arguments, code, wrong, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # links have names outside of a checkout too
    assert main(["emulate", *arguments]) == code
    assert wrong in capsys.readouterr().err


def an_emulation_that_is_not_made(monkeypatch):
    found = Emulated([ended(0)] * 2, None, "tbf+netem", {}, {}, None)
    monkeypatch.setattr("ddlbench.emulate.run.emulate", lambda _asked: found)
    monkeypatch.setattr("ddlbench.emulate.summary.summary", lambda *_: "")
    monkeypatch.setattr("ddlbench.emulate.output.tell", print)
    monkeypatch.setattr(machine_lock, "shared_folder", Path.cwd)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # which the command would set for all tests after it


def test_where_something_else_measures_a_refusal_is_not_taken_for_a_hosts_failure(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    an_emulation_that_is_not_made(monkeypatch)
    asked = ["emulate", "--link", "gigabit", "--other-measurements", "refuse", "--", "true"]
    assert main(asked) == 0
    with machine_lock.alone_on_this_machine("refuse"):
        assert main(asked) == 125
    assert "another measurement is running" in capsys.readouterr().err


def test_a_disk_that_is_full_in_the_end_is_not_taken_for_a_hosts_failure(capsys, tmp_path, monkeypatch):
    def full(*_arguments):
        raise DiskFull("found.json: the disk is full")

    monkeypatch.chdir(tmp_path)
    an_emulation_that_is_not_made(monkeypatch)
    monkeypatch.setattr("ddlbench.emulate.result.write", full)
    assert main(["emulate", "--link", "gigabit", "--output", "found", "--", "true"]) == 125
    assert "found.json: the disk is full" in capsys.readouterr().err


def ended(status, *, was_ended=False):
    return HostEnd(
        name="h1",
        status=status,
        was_ended=was_ended,
        wall_s=1.0,
        cpu_s=1.0,
        sent_bytes=0,
        received_bytes=0,
        retransmits=0,
        output_bytes=0,
        left=[],
    )


@pytest.mark.parametrize(
    ("hosts", "signal", "drifted", "code"),
    [
        ([ended(0), ended(0)], None, None, 0),
        ([ended(0), ended(3)], None, None, 3),
        ([ended(1), ended(-9, was_ended=True)], None, None, 1),
        ([ended(-11), ended(1)], None, None, 139),
        ([ended(0), ended(0)], None, "rate 3 instead of 20", 125),
        ([ended(4), ended(0)], None, "rate 3 instead of 20", 4),
        ([ended(0, was_ended=True)] * 2, 2, None, 130),
    ],
)
def test_the_exit_code_is_that_of_the_worst_host_that_ended_by_itself(hosts, signal, drifted, code):
    assert Emulated(hosts, signal, "tbf+netem", {}, None, drifted).exit_code == code
