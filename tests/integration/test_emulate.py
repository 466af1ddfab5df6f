"""`ddlbench emulate` runs a command in each host, tells how each ended, and leaves nothing behind."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlbench.emulate.commands import TERM_S
from tests.support.emulate_command import ALONE, EMULATE, LINK, lines_of, run
from tests.support.remains import eventually
from tests.support.repository import REPOSITORY

pytestmark = [pytest.mark.needs("sandboxes")]


def emulated(
    *options: str, script: str, folder: Path, interpreter: str = "sh"
) -> subprocess.CompletedProcess[str]:
    """The command after it has ended; its processes worked in `folder`."""
    flag = "-c"
    argv = [*EMULATE, *LINK, *options, "--", interpreter, flag, script]
    return subprocess.run(argv, capture_output=True, text=True, cwd=folder, timeout=800)


def working_in(folder: Path) -> Iterator[str]:
    """The command lines of processes that work in a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder):
                yield (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue


def test_every_host_prints_under_its_name_on_the_stream_that_it_printed_to(tmp_path: Path) -> None:
    ended = emulated("--hosts", "3", script="echo rank $RANK of $WORLD_SIZE; echo wrong >&2", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [f"h{n + 1} | rank {n} of 3" for n in range(3)]
    assert [lines_of(f"h{n}", ended.stderr).count("wrong") for n in (1, 2, 3)] == [1, 1, 1]


def test_each_host_has_its_own_address_and_reaches_the_others(tmp_path: Path) -> None:
    script = """
import os, socket
rank, master, port = int(os.environ["RANK"]), os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server((master, port)) as server:
        for _ in range(2):
            print("greeted by", server.accept()[1][0])
else:
    while True:
        try:
            socket.create_connection((master, port), 30).close()
            break
        except ConnectionRefusedError:
            pass
"""
    ended = emulated("--hosts", "3", script=script, folder=tmp_path, interpreter=sys.executable)
    assert ended.returncode == 0, ended.stderr
    assert set(lines_of("h1", ended.stdout)) == {"greeted by 10.66.0.2", "greeted by 10.66.0.3"}


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


def test_a_script_does_not_inherit_what_is_ours(tmp_path: Path) -> None:
    (tmp_path / "select.py").write_text("raise ImportError('this is not the module that ddlbench needs')")
    script = "echo ${PYTHONSAFEPATH-none} ${https_proxy-none} $MINE; grep -i sigign /proc/$$/status"
    argv = [*EMULATE, *LINK, "--", "sh", "-c", script]
    variables = {**os.environ, "https_proxy": "http://proxy.invalid", "MINE": "kept"}
    ended = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env=variables, timeout=800)
    assert ended.returncode == 0, ended.stderr
    said, ignored = lines_of("h1", ended.stdout)
    assert said == "none none kept"
    by_python = {signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ}
    assert not [each for each in by_python if int(ignored.split()[1], 16) >> (each - 1) & 1]


def test_tensorflows_variable_names_every_worker(tmp_path: Path) -> None:
    ended = emulated(script='echo "$TF_CONFIG"', folder=tmp_path)
    config = json.loads(lines_of("h2", ended.stdout)[0])
    assert config["task"] == {"type": "worker", "index": 1}
    assert [address.partition(":")[0] for address in config["cluster"]["worker"]] == [
        "10.66.0.1",
        "10.66.0.2",
    ]


@pytest.mark.long
def test_hosts_on_sites_are_verified_link_by_link(tmp_path: Path) -> None:
    argv = [*EMULATE, "--hosts", "2", "--sites", "office-and-homes", "--", "true"]
    ended = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=800)
    assert ended.returncode == 0, ended.stderr
    assert " -> " in ended.stderr


def test_it_waits_for_another_measurement(tmp_path: Path) -> None:
    script = "while [ ! -e go ]; do sleep 0.05; done"
    first_argv, second_argv = [*ALONE, *LINK, "--", "sh", "-c", script], [*ALONE, *LINK, "--", "true"]
    with subprocess.Popen(first_argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        assert any(line.startswith("ddlbench: ") for line in first.stderr)  # it has waited for other tests
        with subprocess.Popen(second_argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr is not None
            assert "waiting: another measurement is running" in second.stderr.readline()
            (tmp_path / "go").touch()
            second.stderr.read()
        assert second.returncode == 0
        first.stderr.read()
    assert first.returncode == 0


def test_it_works_from_an_installed_wheel_without_a_checkout_or_snakemake(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for part in ("src", "config", "workflow", "containers", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (REPOSITORY / part).is_dir() else shutil.copy
        source.mkdir(exist_ok=True)
        copy(REPOSITORY / part, source / part)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    built = run(
        *pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source), folder=tmp_path
    )
    assert built.returncode == 0, built.stderr
    shutil.rmtree(source)
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", str(venv), folder=tmp_path)
    packages = next(venv.glob("lib/python*/site-packages"))
    (wheel,) = tmp_path.glob("ddlbench-*.whl")
    installed = run(
        *pip, "--python", str(venv), "install", "--no-deps", "--no-index", str(wheel), folder=tmp_path
    )
    assert installed.returncode == 0, installed.stderr
    assert os.access(packages / "ddlbench/shipped/containers/oci_runtime.py", os.X_OK)  # Docker executes it
    # What it depends on is that of this environment, but Snakemake, and this checkout.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (packages / "snakemake.py").write_text("raise ImportError('there is no Snakemake here')")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    argv = [
        str(venv / "bin/ddlbench"),
        "emulate",
        "--other-measurements",
        "ignore",
        "--link",
        "home-broadband",
        "--output",
        "found",
        "--",
    ]
    ended = subprocess.run(
        [*argv, "sh", "-c", "echo $RANK"],
        capture_output=True,
        text=True,
        cwd=elsewhere,
        env=variables,
        timeout=800,
    )
    assert ended.returncode == 0, ended.stderr
    assert "20 Mbit/s, 10 ms, 0.1 % loss" in ended.stderr
    assert sorted(ended.stdout.splitlines()) == ["h1 | 0", "h2 | 1"]
    assert (elsewhere / "found.json.prov.json").exists()
