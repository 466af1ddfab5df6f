"""Collectives among emulated hosts over a shaped link get the bandwidth that the link has."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
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

RATE_MBIT = 100
OF_NOMINAL = 0.956  # TCP's share of what frames of 1,514 bytes carry
# Twice what the link carries, as a part may wait in a buffer when a clock starts; the machine's own memory has a
# hundred times as much. How near operations come to the link is a number for benchmarks.
BESIDE_MBIT = 2 * RATE_MBIT
LARGE = 4 << 20  # against which a burst of 32 kB is nothing
pytestmark = pytest.mark.long
LITTLE = StopRule(min_repetitions=3, max_repetitions=3, interval_percent=50)
LIMITS = Timeouts(launch_s=300, prepare_s=300, step_s=300, heartbeat_s=120)
FORGIVING = Tolerances(
    rate_percent=99.9, rtt_percent=100, rtt_ms=10_000, loss_points=99, others_percent=100, share_percent=100
)  # of all but a dead link


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
def test_a_large_operation_goes_over_the_link_and_nowhere_beside_it(how, hosts):
    names = ["all_reduce", "broadcast", "pull"]
    found = probe_collectives(
        Link(RATE_MBIT), hosts=hosts, sizes_bytes=[LARGE], collectives=names, how=How(**how)
    )
    mbit = bus_mbit(found, hosts)
    assert list(mbit) == names
    assert 0 < min(mbit.values()) <= max(mbit.values()) < BESIDE_MBIT


def test_all_operations_are_right_and_those_that_gloo_lacks_are_named(how):
    found = probe_collectives(Link(RATE_MBIT), hosts=3, sizes_bytes=[4, 1000], how=How(**how))
    assert {name for name, _ in found.times_s} == {"all_reduce", "broadcast", "all_gather", "push", "pull"}
    assert all(len(values) == 3 for values in found.times_s.values())
    assert found.not_available == {"reduce_scatter": NOT_AVAILABLE["gloo", "reduce_scatter"]}
    assert found.measured is not None
    assert found.measured.rate_mbit > 0


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
    assert 0 < mbit < BESIDE_MBIT


def test_a_rank_that_dies_leaves_what_was_measured_and_is_named(how):
    how["rule"] = StopRule(min_repetitions=500, max_repetitions=500, interval_percent=1)
    killer = threading.Thread(target=_kill_rank, args=(1,), daemon=True)
    killer.start()
    found = probe_messages(Link(RATE_MBIT), largest_bytes=64, how=How(**how))
    assert "rank 1 on host h2 died (SIGKILL) while timing pingpong" in (found.vanished or "")
    assert any(found.times_s.values())


def _kill_rank(rank: int) -> None:
    """Once the probe times, kill one of its workers.

    The link is verified by UDP, before and after which there is TCP only: connections and warm-up, then what is timed.
    """
    process = _await(lambda: _worker(rank))
    _await(lambda: _counted(process, "Udp", "OutDatagrams") > 0)
    seen = {"udp": -1, "tcp": 0}

    def times() -> bool:
        udp, tcp = (_counted(process, *name) for name in (("Udp", "OutDatagrams"), ("Tcp", "InSegs")))
        if udp != seen["udp"]:
            seen.update(udp=udp, tcp=tcp)
        return tcp > seen["tcp"] + 5000  # a value is the mean over some hundreds of messages

    _await(times)
    process.send_signal(signal.SIGKILL)


def _await(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 600
    while not (it := found()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return it


def _worker(rank: int) -> psutil.Process | None:
    named = (each for each in psutil.process_iter(["name"]) if each.info["name"] == f"ddlbench-rank{rank}")
    return next((each for each in named if _is_ours(each)), None)


def _counted(process: psutil.Process, protocol: str, name: str) -> int:
    """A counter of the network that a process is in."""
    lines = Path(f"/proc/{process.pid}/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith(f"{protocol}:"))
    return int(values[names.index(name)])


def _is_ours(process: psutil.Process) -> bool:
    return os.getpid() in (parent.pid for parent in process.parents())


def test_a_message_of_torch_takes_no_less_than_the_links_rate_and_latency(how):
    found = probe_messages(Link(RATE_MBIT, 5), largest_bytes=1 << 20, how=How(**how))
    best = {size: min(seconds) for (_, size), seconds in found.times_s.items()}
    # There and back by one clock: never sooner than the link lets it.
    assert best[1] > 0.005 - 0.0003
    assert best[1 << 20] > 0.95 * (8 << 20) / (RATE_MBIT * 1e6 * OF_NOMINAL)


def test_the_job_is_kept_with_what_the_workers_said(how):
    probe_messages(Link(RATE_MBIT), largest_bytes=1, how=How(**how))
    assert json.loads((how["logs"] / "job.json").read_text())["link"]["bandwidth_mbit"] == RATE_MBIT
    assert (how["logs"] / "rank1.log").exists()
