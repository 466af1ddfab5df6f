"""A link that changes while it is measured on is noticed, and what was measured on it does not count."""

import copy
import os
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.pipeline import Pipeline
from tests.support.sandboxes import backends_here
from tests.support.tiny_study import SLOW_STUDY

CHANGES = {
    "rate": "rate 2500000 -> 1000000",
    "removed": "link 1 has no tbf any more",
    "removed for what is received": "link 1 back has no tbf any more",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_shaper_that_somebody_has_changed_is_noticed_without_measuring(sandbox, backend, change):
    found = sandbox("drift", backend=backend, change=change, recheck_s=1000)
    assert found["unchanged"] is None
    assert "has drifted. When it was verified: " in found["said"]
    assert CHANGES[change] in found["said"]


@pytest.mark.long
def test_a_link_that_carries_something_else_is_noticed_when_it_is_measured_again(sandbox, backend):
    said = sandbox("drift", backend=backend, change="busy", recheck_s=0.2)["said"]
    assert "is not what was asked for (20 Mbit/s, 100 ms, 0 % loss" in said
    assert "do those since the links were last found right" in said


def test_a_link_that_is_still_right_is_measured_again_and_the_run_goes_on(sandbox, backend):
    found = sandbox("drift", backend=backend, change="nothing", recheck_s=0.2)
    assert found["said"] is None
    assert found["found"].keys() >= found["made"].keys() >= {"rate_mbit", "rtt_ms", "loss_percent"}


def test_a_run_whose_link_is_changed_fails_and_keeps_nothing_measured_on_the_changed_link(
    prepared: Pipeline,
):
    # One group for all: between two groups there would be no host whose link could be changed. One link: making another
    # one would undo a change that comes between two repetitions, and rightly nobody would hear of it.
    measure = {"min_repetitions": 500, "max_repetitions": 500, "recheck_s": 0.5, "relaunch": False}
    prepared.configure({"measure": measure, "grids": {"tiny2000": {"bandwidth": {"bandwidth_mbit": [200]}}}})
    process = prepared.start(prepared.manifest("bandwidth"))
    try:
        _wait_for(lambda: len(prepared.measurements()) >= 3 or process.poll() is not None)
        hosts = _hosts_below(process.pid)
        assert hosts
        for namespace in hosts:
            change = ["tc", "qdisc", "replace", "dev", "eth0", "root", "handle", "1:", "tbf"]
            change += ["rate", "3mbit", "burst", "64kb", "limit", "1mb"]
            subprocess.run([*_entering(namespace), *change], check=True)
        changed = datetime.now(UTC)
        assert process.wait(300) != 0
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert "has drifted. When it was verified: " in prepared.said
    assert "of link 1: " in prepared.said or "is not what was asked for" in prepared.said
    # Of what is kept, the link was looked at after it had ended: before the change.
    assert all(datetime.fromisoformat(record["ended"]) < changed for record in prepared.records())


@pytest.mark.long
def test_a_run_whose_link_stalls_keeps_that_repetition_and_measures_the_others(prepared: Pipeline):
    if "tbf+netem" in backends_here():
        pytest.skip("this kernel delays packets itself")
    measure = {"min_repetitions": 20, "max_repetitions": 20, "recheck_s": 1000, "relaunch": False}
    timeouts = {"launch_s": 300, "prepare_s": 120, "step_s": 5, "heartbeat_s": 300}
    study = copy.deepcopy(SLOW_STUDY)
    study["grids"]["bandwidth"]["bandwidth_mbit"] = [200]
    prepared.configure({"measure": measure, "timeouts": timeouts}, study)
    process = prepared.start(prepared.manifest("bandwidth"))
    try:
        _wait_for(lambda: prepared.measurements() or process.poll() is not None)
        delaying = [each for each in _below(process.pid) if "ddlbench.network.delay" in _command(each)]
        for each in delaying:
            os.kill(each, signal.SIGSTOP)
        # In its first step or later: only then is the time until then a step.
        given_up = ("the link stalled", "without a step")
        _wait_for(lambda: any(words in prepared.said for words in given_up) or process.poll() is not None)
        for each in delaying:
            os.kill(each, signal.SIGCONT)
        assert process.wait(300) == 0, prepared.said
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    records = prepared.records()
    assert [each["status"] for each in records].count("measured") == 20
    stalled = [each for each in records if each["stalled_s"]]
    assert stalled
    for each in stalled:
        assert each["stalled_s"] > timeouts["step_s"]
        assert all(times[-1] == 1000 * each["stalled_s"] for times in each["step_times_ms"])


def _wait_for(happened) -> None:
    deadline = time.monotonic() + 300
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert happened()


def _entering(network: str) -> list[str]:
    """The command that enters a host, and first the user namespace that owns it, where this user is no root."""
    users = network.replace("/net", "/user")
    owned = os.readlink(users) != os.readlink("/proc/self/ns/user")
    return [
        "nsenter",
        *([f"--user={users}", "--preserve-credentials"] if owned else []),
        f"--net={network}",
    ]


def _hosts_below(pid: int) -> list[str]:
    """The network namespaces of the workers that a process has started."""
    found = {}
    for each in sorted(_below(pid)):
        path = f"/proc/{each}/ns/net"
        try:
            devices = Path(f"/proc/{each}/net/dev").read_text()
            if " eth0:" in devices and os.readlink(path) != os.readlink("/proc/self/ns/net"):
                found.setdefault(os.readlink(path), path)
        except OSError:
            continue
    return list(found.values())


def _command(pid: int) -> str:
    """The command line of a process; nothing of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _below(pid: int) -> set[int]:
    """A process and all that it has started."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, listing.splitlines())}
    below = {pid}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return below
