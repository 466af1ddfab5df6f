"""Collectives among emulated hosts over a shaped link get the bandwidth that the link has."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddlbench.measurements.collectives import bus_bandwidth_mbit
from ddlbench.network.link import Link
from ddlbench.probes.collective_probe import NOT_AVAILABLE, Found, How, probe_collectives, probe_messages
from ddlbench.protocol.measure import StopRule
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.protocol.tolerances import Tolerances
from tests.support.extremes import most

RATE_MBIT = 100
OF_NOMINAL = 0.956  # TCP's share of what frames of 1,514 bytes carry
# Gloo passes parts of an array around a ring and waits for each: a few percent, more on a busy machine.
OF_GOODPUT = 0.85
LARGE = 4 << 20  # against which a burst of 32 kB is nothing
LITTLE = StopRule(min_repetitions=3, max_repetitions=3, interval_percent=50)
LIMITS = Timeouts(launch_s=120, prepare_s=60, step_s=60, heartbeat_s=30)
FORGIVING = Tolerances(rate_percent=10, rtt_percent=100, rtt_ms=5, loss_points=1)


@pytest.fixture
def how(torch_environment: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    return {
        "transport": "gloo",
        "dilation": 1.0,
        "rule": LITTLE,
        "tolerances": FORGIVING,
        "timeouts": LIMITS,
        "python": torch_environment["python"],
        "logs": tmp_path,
    }


def bus_mbit(found: Found, hosts: int) -> dict[str, float]:
    return {
        name: bus_bandwidth_mbit(name, hosts, size, min(seconds))
        for (name, size), seconds in found.times_s.items()
    }


@pytest.mark.parametrize("hosts", [2, 3])
def test_a_large_operation_gets_the_links_rate(how, hosts):
    expected = pytest.approx(RATE_MBIT * OF_NOMINAL * (1 + OF_GOODPUT) / 2, rel=(1 - OF_GOODPUT) / 2 + 0.04)
    names = ("all_reduce", "broadcast", "pull")
    best: dict[str, float] = dict.fromkeys(names, 0.0)

    def slowest_mbit() -> float:
        found = probe_collectives(
            Link(RATE_MBIT), hosts=hosts, sizes_bytes=[LARGE], collectives=names, how=How(**how)
        )
        for name, mbit in bus_mbit(found, hosts).items():
            best[name] = max(mbit, best[name])
        return min(best.values())

    most(slowest_mbit, enough=RATE_MBIT * OF_NOMINAL * OF_GOODPUT)
    tree = {"broadcast"} if hosts > 2 else set()  # Gloo's root sends to two of the others in turn
    assert {name: mbit for name, mbit in best.items() if name not in tree} == {
        name: expected for name in best if name not in tree
    }


def test_all_operations_are_right_and_those_that_gloo_lacks_are_named(how):
    found = probe_collectives(Link(1000), hosts=3, sizes_bytes=[4, 1000], how=How(**how))
    assert {name for name, _ in found.times_s} == {"all_reduce", "broadcast", "all_gather", "push", "pull"}
    assert all(len(values) == 3 for values in found.times_s.values())
    assert found.not_available == {"reduce_scatter": NOT_AVAILABLE["gloo", "reduce_scatter"]}
    assert found.measured["rate_mbit"] == pytest.approx(1000, rel=0.1)


def test_what_gloo_calls_a_reduce_scatter_moves_as_much_as_an_all_reduce(torch_environment, tmp_path):
    """Where this fails, PyTorch has got a real one: take it out of NOT_AVAILABLE."""
    from tests.support.sandboxes import run_inside

    sent = {
        name: run_inside(tmp_path, "sent_bytes", python=torch_environment["python"], collective=name)
        for name in ("all_reduce", "reduce_scatter")
    }
    assert sent["reduce_scatter"] == pytest.approx(sent["all_reduce"], rel=0.1)


def test_more_hosts_than_cores_share_them_in_dilated_time(how):
    hosts = 2 * len(os.sched_getaffinity(0))
    found = probe_collectives(
        Link(RATE_MBIT), hosts=hosts, sizes_bytes=[1 << 20], collectives=["pull"], how=How(**how)
    )
    assert found.dilation == 2
    (mbit,) = bus_mbit(found, hosts).values()
    assert mbit == pytest.approx(RATE_MBIT * OF_NOMINAL, rel=0.25)


def test_a_rank_that_dies_leaves_what_was_measured_and_is_named(how):
    how["rule"] = StopRule(min_repetitions=500, max_repetitions=500, interval_percent=1)
    killer = threading.Thread(target=_kill_rank, args=(1,), daemon=True)
    killer.start()
    found = probe_messages(Link(RATE_MBIT), largest_bytes=64, how=How(**how))
    assert "rank 1 on host h2 died (SIGKILL) while timing pingpong" in (found.vanished or "")
    assert any(found.times_s.values())


def _kill_rank(rank: int) -> None:
    """Once the probe times, kill one of its workers."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        for process in psutil.process_iter(["name"]):
            if process.info["name"] == f"ddlbench-rank{rank}" and _is_ours(process):
                time.sleep(8)  # connections, verification and warm-up take about three
                process.send_signal(signal.SIGKILL)
                return
        time.sleep(0.1)


def _is_ours(process: psutil.Process) -> bool:
    return os.getpid() in (parent.pid for parent in process.parents())


def test_a_message_of_torch_takes_the_links_rate_and_latency_and_a_handshake_of_gloos(how):
    found = probe_messages(Link(RATE_MBIT, 5), largest_bytes=1 << 20, how=How(**how))
    best = {size: min(seconds) for (_, size), seconds in found.times_s.items()}
    assert 0.005 < best[1] < 3.3 * 0.005  # it tells the receiver, and is told, before it sends
    wire_s = (8 << 20) / (RATE_MBIT * 1e6 * OF_NOMINAL)
    assert 0.95 * wire_s < best[1 << 20] - best[1] < 1.15 * wire_s


def test_the_job_is_kept_with_what_the_workers_said(how):
    probe_messages(Link(1000), largest_bytes=1, how=How(**how))
    assert json.loads((how["logs"] / "job.json").read_text())["link"]["bandwidth_mbit"] == 1000
    assert (how["logs"] / "rank1.log").exists()
