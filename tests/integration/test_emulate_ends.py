"""However `ddlbench emulate` ends, it tells how each host did, and leaves nothing behind."""

import fcntl
import json
import os
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlbench.emulate.commands import TERM_S
from tests.support.emulate_command import EMULATE, LINK, emulated, lines_of
from tests.support.remains import eventually

pytestmark = [pytest.mark.needs("sandboxes")]


def working_in(folder: Path) -> Iterator[str]:
    """The command lines of processes that work in a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder):
                yield (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue


def test_the_exit_code_is_the_worst_hosts_and_the_host_is_named(tmp_path: Path) -> None:
    ended = emulated("--hosts", "3", script="exit $((RANK * 7))", folder=tmp_path)
    assert ended.returncode == 14
    assert "h2 ended with status 7" in ended.stderr
    assert "h3 ended with status 14" in ended.stderr


def test_a_host_that_a_signal_ends_counts_as_a_shell_counts_it(tmp_path: Path) -> None:
    ended = emulated(script="[ $RANK = 1 ] || kill -SEGV $$", folder=tmp_path)
    assert ended.returncode == 128 + signal.SIGSEGV
    assert "h1 ended with SIGSEGV" in ended.stderr


def test_output_for_a_disk_that_is_full_ends_all_hosts_and_leaves_nothing(tmp_path: Path) -> None:
    argv = [*EMULATE, *LINK, "--", "sh", "-c", "echo line; exec sleep 1000"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            argv, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=800
        )
    assert ended.returncode == 125
    assert "the output of the commands: the disk is full. Make room, and start again\n" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(working_in(tmp_path)) == []


def test_when_one_host_fails_the_others_are_ended_and_its_own_code_counts(tmp_path: Path) -> None:
    script = "[ $RANK = 1 ] && exit 3; exec sleep 1000"
    ended = emulated("--hosts", "3", "--grace-s", "0.1", script=script, folder=tmp_path)
    assert ended.returncode == 3
    assert "h2 ended with status 3" in ended.stderr
    assert "143 (ended by us)" in ended.stderr


def test_who_ignores_to_be_ended_is_killed_and_named(tmp_path: Path) -> None:
    script = """
if [ $RANK = 1 ]; then until [ -e deaf ]; do sleep 0.05; done; exit 3; fi
trap '' TERM; touch deaf; while true; do sleep 0.1; done
"""
    ended = emulated("--grace-s", "0", script=script, folder=tmp_path)
    assert ended.returncode == 3
    assert f"h1 has not ended in {TERM_S:g} s: killed" in ended.stderr
    assert list(working_in(tmp_path)) == []


def test_daemons_that_a_command_leaves_behind_are_named_and_killed(tmp_path: Path) -> None:
    # Each is called sleep before the command ends: a busy machine takes its time to make a fork what it is to be.
    script = (
        "for n in 1 2; do setsid sleep 1000 & until grep -qx sleep /proc/$!/comm; do sleep 0.05; done; done"
    )
    ended = emulated(script=script, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "h1 left processes behind, which are killed: 2 x sleep" in ended.stderr
    assert list(working_in(tmp_path)) == []


def test_daemons_that_end_do_not_stay_as_zombies(tmp_path: Path) -> None:
    script = """
for n in $(seq 50); do (setsid true &); done
until [ $(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l) = 0 ]; do sleep 0.05; done
"""
    ended = emulated(script=script, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_output_without_end_is_cut_and_counted(tmp_path: Path) -> None:
    script = "[ $RANK = 1 ] || head -c 30000000 /dev/zero | tr '\\0' '\\n'"
    ended = emulated("--shown-mb", "1", script=script, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert len(lines_of("h1", ended.stdout)) < 3_000_000
    assert "it prints too much; the rest is not shown" in ended.stdout
    assert "30.00" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_commands_and_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo heard; exit 0' {name}; touch ready-$RANK; while true; do sleep 0.05; done"
    argv = [*EMULATE, *LINK, "--", "sh", "-c", script]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert eventually(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
        process.send_signal(number)
        out, err = process.communicate(timeout=800)
    assert process.returncode == 128 + number, err
    assert out.count("heard") == 2
    assert "not measured, as it was interrupted" in err
    assert list(working_in(tmp_path)) == []


def test_a_terminals_interrupt_ends_all_of_it(tmp_path: Path) -> None:
    """Ctrl-C goes to every process of the foreground group."""
    script = "touch ready-$RANK; exec sleep 1000"
    with subprocess.Popen(
        [*EMULATE, *LINK, "--", "sh", "-c", script],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    ) as process:
        assert eventually(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=800)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert list(working_in(tmp_path)) == []


def test_a_terminal_that_hangs_up_lets_the_commands_end_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    script = (
        "trap 'sleep 1; touch heard-$RANK; exit 0' HUP; touch ready-$RANK; while true; do sleep 0.05; done"
    )
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*EMULATE, *LINK, "--output", "found", "--", "sh", "-c", script],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY),
    )
    os.close(theirs)
    assert eventually(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
    os.close(ours)
    os.killpg(process.pid, signal.SIGHUP)  # as the kernel does when a shell has ended that was told first
    assert process.wait(800) == 128 + signal.SIGHUP
    assert len(list(tmp_path.glob("heard-*"))) == 2
    assert json.loads((tmp_path / "found.json").read_text())
    assert list(working_in(tmp_path)) == []


def test_when_it_is_killed_nothing_is_left(tmp_path: Path) -> None:
    script = "touch ready-$RANK; setsid sleep 1000 & exec sleep 1000"
    with subprocess.Popen([*EMULATE, *LINK, "--", "sh", "-c", script], cwd=tmp_path) as process:
        assert eventually(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
        process.kill()
    assert eventually(lambda: not list(working_in(tmp_path)))


def test_when_nobody_reads_the_output_all_hosts_end(tmp_path: Path) -> None:
    script = "while true; do echo line; sleep 0.01; done"
    with subprocess.Popen(
        [*EMULATE, *LINK, "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=800) == 128 + signal.SIGPIPE
        assert process.stderr is not None
        assert "nobody reads the output any more" in process.stderr.read()
    assert list(working_in(tmp_path)) == []
