"""The point-to-point probe between two emulated hosts finds the link that is there."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ddlbench.measurements.point_to_point import latency_us, rows
from ddlbench.network.link import Link
from ddlbench.runtime.probing import NETPIPE, probe_link

OF_NOMINAL = 0.956  # TCP's share of what frames of 1,514 bytes carry
ATTEMPTS = 3  # a machine may be busy at one of them
LITTLE = {"min_repetitions": 3, "max_repetitions": 5, "interval_percent": 5}


def probed(link, *, dilation=1.0, largest_bytes=1 << 20, netpipe=False):
    found = probe_link(
        link, dilation=dilation, measure=LITTLE, largest_bytes=largest_bytes, timeout_s=30, netpipe=netpipe
    )
    assert found["vanished"] is None
    return {tool: rows(times_s, {}) for tool, times_s in found["times_s"].items()}


def test_a_small_message_takes_the_links_latency():
    assert latency_us(probed(Link(1000, 5), largest_bytes=64)["ddlbench"]) == pytest.approx(5000, abs=300)


def test_large_messages_get_the_links_bandwidth():
    throughputs_mbit = []
    # What else the machine does can only make it less, and never more.
    while len(throughputs_mbit) < ATTEMPTS and max(throughputs_mbit, default=0) < 0.97 * 100 * OF_NOMINAL:
        throughputs_mbit.append(probed(Link(100))["ddlbench"][-1]["throughput_mbit"])
    assert max(throughputs_mbit) == pytest.approx(100 * OF_NOMINAL, rel=0.03)


def test_dilation_leaves_latency_and_bandwidth_as_they_are_called():
    found = probed(Link(400, 2), dilation=4.0)["ddlbench"]
    assert latency_us(found) == pytest.approx(2000, abs=200)
    wire_us = found[-1]["size_bytes"] * 8 / (400 * OF_NOMINAL)
    assert found[-1]["one_way_us"] == pytest.approx(2000 + wire_us, rel=0.05)


def test_netpipe_itself_finds_the_same_on_a_shaped_link():
    ratios = {}
    for _ in range(ATTEMPTS):
        found = probed(Link(100, 1), largest_bytes=4096, netpipe=True)
        theirs = {row["size_bytes"]: row["one_way_us"] for row in found[NETPIPE]}
        ours = {row["size_bytes"]: row["one_way_us"] for row in found["ddlbench"]}
        assert set(ours) == set(theirs)  # the sizes are its own
        ratios = {size: ours[size] / theirs[size] for size in (64, 1024, 4096)}
        if all(abs(ratio - 1) < 0.15 for ratio in ratios.values()):
            break
    assert ratios == pytest.approx(dict.fromkeys(ratios, 1.0), abs=0.15)


def test_two_probes_at_once_do_not_meet():
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda latency: probed(Link(100, latency), largest_bytes=64), (2, 6)))
    assert [round(latency_us(each["ddlbench"]) / 1000) for each in found] == [2, 6]


def test_the_command_probes_a_host_that_answers_and_writes_both_formats(tmp_path):
    command = [sys.executable, "-m", "ddlbench.cli", "probe"]
    asked = ["--largest-bytes", "1024", "--output", "curve"]
    options = {"cwd": tmp_path, "env": os.environ, "text": True}
    with subprocess.Popen(
        [*command, "answer", "127.0.0.1", "--port", "0"], stderr=subprocess.PIPE, **options
    ) as waiting:
        port = waiting.stderr.readline().split()[-1]
        answer = subprocess.run(
            [*command, "address", "127.0.0.1", "--port", port, "--fabric", "loopback", *asked],
            capture_output=True,
            **options,
        )
        assert waiting.wait(30) == 0
    assert answer.returncode == 0, answer.stderr
    assert "latency" in answer.stdout
    header, first, *_ = (tmp_path / "curve.csv").read_text().splitlines()
    assert dict(zip(header.split(","), first.split(","), strict=True))["fabric"] == "loopback"
    assert (tmp_path / "curve.np.out").read_text().split()[0] == "1"
