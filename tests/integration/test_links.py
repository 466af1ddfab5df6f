"""Emulated links carry what they were asked to carry: measured by iperf3 and by plain sockets, not by our own probe."""

import re
from functools import partial
from statistics import median

import pytest

from tests.support.extremes import least, most

GOODPUT = 1448 / 1514  # of TCP in Ethernet frames of 1,514 bytes: 0.956


def test_this_kernel_can_make_links(backends):
    assert backends


@pytest.mark.needs("iperf3")
@pytest.mark.parametrize("bandwidth_mbit", [100, 1000])
def test_tcp_carries_0_956_of_the_nominal_bandwidth(sandbox, backend, backends, bandwidth_mbit):
    percent = 1
    if backend not in backends:  # a kernel that is a process itself is slow, and its timers are late
        percent, bandwidth_mbit = 5, bandwidth_mbit / 10
    nominal = bandwidth_mbit * GOODPUT
    link = {"bandwidth_mbit": bandwidth_mbit}
    found = sandbox("goodput_mbit", backend=backend, link=link, wanted=nominal, percent=percent)
    assert found[-1] == pytest.approx(nominal, rel=percent / 100), found
    assert max(found) <= nominal * 1.01  # whatever else the machine does, a link is never faster


def test_three_hosts_that_send_to_one_share_what_its_link_carries(sandbox, backend, backends):
    mbit = 100 if backend in backends else 20
    link = {"bandwidth_mbit": mbit, "latency_ms": 5}
    arriving = partial(sandbox, "arriving_mbit", backend=backend, link=link, senders=3, seconds=2)
    assert most(arriving, enough=0.97 * mbit) == pytest.approx(mbit, rel=0.03)


@pytest.mark.parametrize("latency_ms", [10, 50])
def test_a_round_trip_takes_twice_the_latency_of_one_way(sandbox, backend, latency_ms):
    link = {"bandwidth_mbit": 1000, "latency_ms": latency_ms}
    asked, late = 2 * latency_ms, 2 * sandbox("late_ms", backend=backend)
    tolerance = max(0.5, 0.02 * asked)

    def added() -> float:
        """What the link adds: what the hosts' own work takes, an open one shows."""
        own, found = map(min, sandbox("links_in_turn_ms", backend=backend, links=[None, link]))
        return found - own

    assert asked - tolerance <= least(added, asked + late + tolerance) <= asked + late + tolerance


def test_two_percent_of_the_packets_are_lost(sandbox, backend):
    link = {"bandwidth_mbit": 1000, "loss_percent": 2}
    lost = partial(sandbox, "loss_percent", backend=backend, link=link, packets=40_000)
    assert least(lost, enough=2.3) == pytest.approx(2, abs=0.3)  # who cannot keep up loses more


def test_no_packet_is_lost_where_no_loss_was_asked_for(sandbox, backend):
    link = {"bandwidth_mbit": 1000, "latency_ms": 1}
    assert sandbox("loss_percent", backend=backend, link=link, packets=5_000) == 0


def test_a_host_knows_at_once_that_it_reaches_no_name_server(sandbox):
    assert sandbox("unreachable_after_s", address="192.0.2.53") < 1


def test_an_opened_link_is_as_fast_as_one_that_was_never_shaped(sandbox, backend):
    link = {"bandwidth_mbit": 100, "latency_ms": 20}
    before, shaped, after = map(
        median, sandbox("links_in_turn_ms", backend=backend, links=[None, link, None])
    )
    assert shaped > 39
    assert before < 5
    assert after < 5


def test_no_more_than_the_queue_is_ahead_of_a_packet(sandbox, backend):
    link = {"bandwidth_mbit": 20, "latency_ms": 5}
    # A round trip and 50 ms wait for the rate; it was more than 5 s where only their number was bounded.
    assert sandbox("behind_a_flood_ms", backend=backend, link=link, seconds=1.5) < 400


def test_tcp_loses_nothing_on_a_link_that_was_opened_after_a_lossy_one(sandbox, backend):
    # What it lost there, its windows would be too small for on the next link.
    assert sandbox("dropped_when_opened", backend=backend, megabytes=50) == 0


@pytest.mark.parametrize("name", ["cubic", "reno"])
def test_connections_between_hosts_use_the_congestion_control_that_was_chosen(sandbox, name):
    found = sandbox("connection", congestion_control=name, dilation=1)
    assert found["congestion_control"] == [name, name]


def test_dilation_stretches_the_shortest_retransmission_timeout(sandbox):
    plain = sandbox("connection", congestion_control="cubic", dilation=1)["rto_ms"]
    dilated = sandbox("connection", congestion_control="cubic", dilation=4)["rto_ms"]
    assert 200 <= plain < 260
    assert 800 <= dilated < 860


def test_the_probe_finds_a_link_to_be_what_it_is(sandbox, backend):
    link = {"bandwidth_mbit": 50, "latency_ms": 5, "loss_percent": 1}
    found = sandbox("probe", backend=backend, made=link, asked=link)["found"]
    assert found["rate_mbit"] == pytest.approx(50, rel=0.05)
    assert found["rtt_ms"] == pytest.approx(10, abs=2)
    assert found["loss_percent"] == pytest.approx(1, abs=0.5)


def test_the_probe_refuses_a_link_that_is_not_what_was_asked_for(sandbox, backend):
    made = {"bandwidth_mbit": 100, "latency_ms": 5, "loss_percent": 0}
    asked = {"bandwidth_mbit": 200, "latency_ms": 20, "loss_percent": 3}
    text = sandbox("probe", backend=backend, made=made, asked=asked)["refused"]
    assert "the emulated link of host h1 is not what was asked for (200 Mbit/s, 20 ms, 3 % loss" in text
    for number, unit in (("200", "Mbit/s"), ("40", "ms"), ("3", "%")):
        assert f" instead of {number} {unit}" in text
    assert re.search(r"loss 0\.\d+ instead of 3 %", text)


def test_a_link_whose_delay_process_died_is_dead_and_not_fast(sandbox, backends):
    if "tbf+nfqueue" not in backends:
        pytest.skip("this kernel delays packets itself")
    found = sandbox("dead_delay", link={"bandwidth_mbit": 100, "latency_ms": 5})
    assert found["before"] == "before"
    assert found["after"] is None
    assert "the delay process" in found["said"]
    assert "died" in found["said"]
