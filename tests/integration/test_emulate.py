"""`ddlbench emulate` runs a command in each host, which finds its peers, from an installed package too."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.emulate_command import ALONE, EMULATE, LINK, emulated, lines_of, run
from tests.support.repository import REPOSITORY

pytestmark = [pytest.mark.needs("sandboxes")]


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
