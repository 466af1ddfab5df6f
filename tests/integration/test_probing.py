"""The point-to-point probe between two emulated hosts finds no link that is faster than the one that is there.

A message goes there and back by one clock: it is never sooner back than its link lets it. How near it comes to that is
measured by `benchmarks/probe.py` and `benchmarks/link.py`.
"""

import csv
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from math import ceil
from time import monotonic, sleep

import psutil
import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.measurements.point_to_point import latency_us, rows
from ddlbench.network.link import Link
from ddlbench.probes.link_probe import NETPIPE, probe_link
from ddlbench.protocol.measure import StopRule
from ddlbench.protocol.tolerances import Tolerances

OF_NOMINAL = 0.956  # TCP's share of what frames of 1,514 bytes carry
EARLY_US = 300  # a packet is let go 0.2 ms early, which that takes; a delay is never shorter
OF_BURST = 1.05  # what a link that was idle carries at once, 32 kB of 1 MB
PATIENCE_S = 600  # with what a busy machine has put aside
PROBE = [sys.executable, "-m", "ddlbench.cli", "probe"]
LOOSE = Tolerances(
    rate_percent=99.9, rtt_percent=100, rtt_ms=10_000, loss_points=99, others_percent=100, share_percent=100
)  # of all but a dead link
LITTLE = StopRule(min_repetitions=3, max_repetitions=5, interval_percent=5)
MUCH = replace(LITTLE, min_repetitions=100, max_repetitions=100)  # nobody waits for its end


def probed(link, *, dilation=1.0, largest_bytes=1 << 20, netpipe=False):
    found = probe_link(
        link, dilation=dilation, rule=LITTLE, largest_bytes=largest_bytes, timeout_s=60, netpipe=netpipe
    )
    assert found.vanished is None
    return {tool: rows(times_s, {}) for tool, times_s in found.times_s.items()}


def test_a_small_message_takes_no_less_than_the_links_latency():
    assert latency_us(probed(Link(100, 5), largest_bytes=64)["ddlbench"]) > 5000 - EARLY_US


def test_large_messages_get_no_more_than_the_links_bandwidth():
    large_mbit = probed(Link(100))["ddlbench"][-1]["throughput_mbit"]
    assert 0 < large_mbit < 100 * OF_NOMINAL * OF_BURST


@pytest.mark.long
def test_dilation_leaves_latency_as_it_is_called():
    found = probed(Link(400, 2), dilation=4.0, largest_bytes=64)["ddlbench"]
    assert latency_us(found) > 2000 - EARLY_US


@pytest.mark.long
def test_dilation_leaves_bandwidth_as_it_is_called():
    last = probed(Link(400, 2), dilation=4.0)["ddlbench"][-1]
    wire_us = last["size_bytes"] * 8 / (400 * OF_NOMINAL * OF_BURST)
    assert last["one_way_us"] > 2000 - EARLY_US + wire_us


@pytest.mark.needs("NPtcp")
def test_netpipe_itself_measures_the_same_sizes_in_the_same_unit_and_is_no_faster_either():
    began = monotonic()
    found = probed(Link(100, 1), largest_bytes=4096, netpipe=True)
    took_us = 1e6 * (monotonic() - began)
    theirs = {row["size_bytes"]: row["one_way_us"] for row in found[NETPIPE]}
    ours = {row["size_bytes"]: row["one_way_us"] for row in found["ddlbench"]}
    assert set(ours) == set(theirs)  # the sizes are its own
    assert min(*ours.values(), *theirs.values()) > 1000 - EARLY_US
    # There was a message of each size, there and back: in another unit, they would have taken longer than all of it.
    assert max(2 * sum(each.values()) for each in (ours, theirs)) < took_us


def test_two_probes_at_once_do_not_meet():
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda latency: probed(Link(100, latency), largest_bytes=64), (2, 6)))
    of_short, of_long = (latency_us(each["ddlbench"]) for each in found)
    assert of_short > 2000 - EARLY_US
    assert of_long > 6000 - EARLY_US


def test_what_a_link_was_measured_to_be_comes_with_its_probe():
    found = probe_link(
        Link(100, 3),
        dilation=2.0,
        rule=LITTLE,
        largest_bytes=64,
        timeout_s=60,
        netpipe=False,
        tolerances=LOOSE,
    )
    assert found.measured.rate_mbit > 0
    assert found.measured.rtt_ms > 6 - 2 * EARLY_US / 1000


def test_a_link_out_of_tolerance_is_not_probed(capfd):
    none = Tolerances(
        rate_percent=1e-9,
        rtt_percent=1e-9,
        rtt_ms=1e-9,
        loss_points=1e-9,
        others_percent=100,
        share_percent=100,
    )
    with pytest.raises(DdlbenchError, match="the probe failed"):
        probe_link(
            Link(100),
            dilation=1,
            rule=LITTLE,
            largest_bytes=64,
            timeout_s=60,
            netpipe=False,
            tolerances=none,
        )
    assert "is not what was asked for (100 Mbit/s, 0 ms, 0 % loss" in capfd.readouterr().err


@pytest.fixture
def answering(tmp_path):
    """`ddlbench probe answer` as a process, and the port that it waits at."""
    command = [*PROBE, "answer", "--port", "0", "--timeout-s", str(PATIENCE_S)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as waiting:
        try:
            yield waiting, waiting.stderr.readline().split()[-1]
        finally:
            waiting.kill()


def addressed(port, *options):
    return [*PROBE, "address", "127.0.0.1", "--port", port, "--output", "curve", *options]


def test_the_command_probes_a_host_that_answers_and_writes_both_formats(tmp_path, answering):
    waiting, port = answering
    command = addressed(port, "--fabric", "loopback", "--largest-bytes", "1024")
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert waiting.wait(PATIENCE_S) == 0
    assert answer.returncode == 0, answer.stderr
    assert "latency" in answer.stdout
    first, *_ = written(tmp_path)
    assert (first["fabric"], first["complete"]) == ("loopback", "True")
    assert (tmp_path / "curve.np.out").read_text().split()[0] == "1"


def test_a_peer_killed_amid_a_curve_leaves_a_part_that_is_called_so(tmp_path, answering):
    waiting, port = answering
    end_amid_work(waiting.pid)
    with subprocess.Popen(addressed(port), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as probing:
        assert probing.wait(PATIENCE_S) == 1
        assert "127.0.0.1 has closed the connection; the curve is not complete" in probing.stderr.read()
    rows = written(tmp_path)
    assert rows
    assert {row["complete"] for row in rows} == {"False"}
    assert {row["fabric"] for row in rows} == {""}  # nobody said what connects the two


def test_what_answers_on_an_emulated_host_is_killed_and_named():
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(
            probe_link,
            Link(100),
            dilation=1.0,
            rule=MUCH,
            largest_bytes=8 << 20,
            timeout_s=60,
            netpipe=False,
        )
        await_answerer().kill()
        found = task.result()
    assert "the process that answered on host h2 ended with SIGKILL" in found.vanished
    assert any(found.times_s["ddlbench"].values())


WORK_S = 0.5  # of computing: much more than a beginning, and much less than a curve


def computed_s(process):
    return sum(process.cpu_times()[:2])


def end_amid_work(pid):
    """Have the kernel kill a process once it has computed for a second or two more: a curve takes some."""
    process = psutil.Process(pid)
    last_s = ceil(computed_s(process)) + 1  # it has started
    process.rlimit(psutil.RLIMIT_CPU, (last_s, last_s))


def await_answerer():
    """The process that answers in a sandbox below this one: a fork, with work behind it, of the first process of it."""
    deadline = monotonic() + PATIENCE_S
    while monotonic() < deadline:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error, AttributeError):  # it has ended
                is_fork = process.cmdline() == process.parent().cmdline()
                probing = "ddlbench.probes.link_probe" in process.cmdline()
                if is_fork and probing and computed_s(process) > WORK_S:
                    return process
        sleep(0.01)
    raise AssertionError


def written(folder):
    with (folder / "curve.csv").open(newline="") as file:
        return list(csv.DictReader(file))
