"""A sandbox is private, needs no root, and vanishes with its owner."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ddlbench.sandbox.sandbox import sandboxed
from tests.support.remains import alive, eventually, namespaces, processes, the
from tests.support.repository import environment

HERE = Path(__file__).parent
EARLY_MS = (
    0.5  # a packet is let go 0.2 ms early, which that takes, on each of two ways; a delay is never shorter
)
OWNER = "from ddlbench.sandbox.sandbox import run_sandboxed as run; run('inside', {arguments!r})"


def start(folder: Path, function: str, arguments: str) -> "subprocess.Popen[bytes]":
    """A process whose only work is to own a sandbox, in which a function of `inside` runs."""
    folder.mkdir()
    (folder / "arguments.json").write_text(arguments)
    command = OWNER.format(arguments=[function, "arguments.json", "answer.json"])
    variables = environment(HERE.parents[1])
    variables["PYTHONPATH"] += f":{HERE}"
    return subprocess.Popen([sys.executable, "-c", command], cwd=folder, env=variables)


@pytest.mark.parametrize(
    "victim", ["run_sandboxed", "unshare", "-m inside"], ids=["owner", "unshare", "first"]
)
def test_nothing_outlives_a_sandbox_that_is_killed(tmp_path, victim):
    folder = tmp_path / "work"
    owner = start(folder, "busy", '{"ready": "ready"}')
    assert eventually(lambda: (folder / "ready").exists() or owner.poll() is not None)
    held = namespaces(folder)
    assert sum(command.startswith("sleep") for command in processes(folder).values()) == 2
    assert sum(name.startswith("net") for name in held) == 3  # the router's and two hosts'
    os.kill(the(folder, victim), signal.SIGKILL)
    owner.wait(300)
    assert eventually(lambda: not processes(folder)), processes(folder)
    assert eventually(lambda: not alive(held)), alive(held)


def test_nothing_outlives_sites_whose_owner_is_killed(tmp_path):
    folder = tmp_path / "work"
    owner = start(folder, "busy", '{"ready": "ready", "sites": 2}')
    assert eventually(lambda: (folder / "ready").exists() or owner.poll() is not None)
    held = namespaces(folder)
    assert sum(name.startswith("net") for name in held) == 6  # two routers', two sinks' and two hosts'
    owner.kill()
    owner.wait(300)
    assert eventually(lambda: not processes(folder)), processes(folder)
    assert eventually(lambda: not alive(held)), alive(held)


def test_two_sandboxes_at_the_same_time_have_the_same_addresses_and_different_links(tmp_path):
    owners = {}
    for latency_ms in (10, 40):
        link = f'{{"bandwidth_mbit": 100, "latency_ms": {latency_ms}}}'
        arguments = f'{{"link": {link}, "ready": "ready", "go": "../go", "times": 15}}'
        owners[latency_ms] = start(tmp_path / str(latency_ms), "alone", arguments)
    assert eventually(lambda: all((tmp_path / str(each) / "ready").exists() for each in owners))
    # No link of the one can be a link of the other.
    short, long = (namespaces(tmp_path / str(each)) for each in owners)
    assert {name.partition(":")[0] for name in short} >= {"net", "mnt", "pid"}
    assert not short & long
    (tmp_path / "go").touch()
    for latency_ms, owner in owners.items():
        assert owner.wait(300) == 0
        found = json.loads((tmp_path / str(latency_ms) / "answer.json").read_text())
        assert min(found) > 2 * latency_ms - EARLY_MS, found


def test_a_sandbox_has_its_own_view_of_processes_mounts_and_interfaces():
    script = (
        "ls -d /proc/[0-9]* | wc -l; cat /proc/net/dev | wc -l; mount -t tmpfs tmpfs /run; ls /run | wc -l"
    )
    before = os.listdir("/run")
    answer = subprocess.run(
        sandboxed(["sh", "-c", script], as_root=os.geteuid() == 0), capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    processes, interfaces, files = map(int, answer.stdout.split())
    assert processes < 10
    assert interfaces == 3  # two lines of heading, and lo
    assert files == 0
    assert os.listdir("/run") == before


def test_an_ordinary_user_gets_a_sandbox_with_working_links(tmp_path, monkeypatch):
    allowed = subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True, text=True)
    if allowed.returncode != 0:
        pytest.skip(f"this machine gives user namespaces to nobody ({allowed.stderr.strip()})")
    (tmp_path / "arguments.json").write_text(
        '{"backend": null, "link": {"bandwidth_mbit": 100, "latency_ms": 10}, "times": 60}'
    )
    command = [sys.executable, "-m", "inside", "round_trips_ms", "arguments.json", "answer.json"]
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=":")
    answer = subprocess.run(sandboxed(command, as_root=False), cwd=tmp_path, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    found = json.loads((tmp_path / "answer.json").read_text())
    assert min(found) > 20 - EARLY_MS, found
