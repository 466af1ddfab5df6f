"""How large bursts, trains and queues of a link are."""

import errno
import os
from contextlib import nullcontext

import pytest

from ddlbench.errors import ConfigError, DdlbenchError
from ddlbench.network import shaping, star
from ddlbench.network.link import Link
from ddlbench.network.ports import Port
from ddlbench.network.shaping import Netem
from ddlbench.network.sizes import LONGEST_BURST, burst_bytes, queue_bytes, sizing_link, train_bytes


@pytest.mark.parametrize("bandwidth_mbit", [1, 10, 100, 400, 1000, 2000, 10_000, 100_000])
def test_a_train_of_segments_is_what_the_kernel_can_make(bandwidth_mbit):
    assert 10 * 1514 < train_bytes(Link(bandwidth_mbit)) <= 65536


@pytest.mark.parametrize("bandwidth_mbit", [1, 100, 2000, 100_000])
def test_a_burst_holds_a_train_and_what_a_late_timer_owes(bandwidth_mbit):
    link = Link(bandwidth_mbit)
    in_a_quarter_ms = bandwidth_mbit * 125 / 4
    assert burst_bytes(link) == int(train_bytes(link) + in_a_quarter_ms)


def test_a_burst_carries_little_of_a_gradient_for_free():
    gradient = 109_386 * 4  # of the smallest model, mlp
    assert burst_bytes(Link(400)) < 0.1 * gradient


@pytest.mark.parametrize("latency_ms", [0, 10, 100])
def test_a_queue_holds_a_round_trip_and_more(latency_ms):
    link = Link(1000, latency_ms)
    bytes_per_ms = 1000 * 125
    assert queue_bytes(link) > 2 * latency_ms * bytes_per_ms + burst_bytes(link)


@pytest.mark.parametrize("bandwidth_mbit", [1, 400, 100_000])
def test_where_trains_are_as_long_as_can_be_burst_and_queue_hold_one_of_them_instead(bandwidth_mbit):
    link = Link(bandwidth_mbit, 5)
    longer = LONGEST_BURST - train_bytes(link)
    assert longer > 0
    assert burst_bytes(link, longest_trains=True) == burst_bytes(link) + longer
    assert queue_bytes(link, longest_trains=True) == queue_bytes(link) + longer


def test_what_is_made_at_full_speed_keeps_its_bursts_when_time_is_dilated():
    assert sizing_link(Link(2000), 4) == Link(2000)


def test_a_link_that_is_only_made_slowed_down_carries_no_megabytes_for_free():
    assert burst_bytes(sizing_link(Link(100_000), 200)) < 2**15 + 2**10
    assert burst_bytes(Link(100_000)) > 3e6


def test_netem_refuses_more_jitter_than_it_can_count():
    backend = Netem(
        [Port(router=0, name="p1", namespace=0, netlink=None, device="eth0", index=2)], dilation=4
    )
    with pytest.raises(DdlbenchError, match=r"2000 ms at most, not 2400 ms \(time dilation included\)"):
        backend._delay_and_lose([Link(100, 800, 0, 600)])


def test_a_kernel_that_cannot_delay_packets_is_told_with_what_it_lacks(monkeypatch):
    def refused(*_):
        raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))

    monkeypatch.setattr(shaping, "_has_netem", lambda port: False)
    monkeypatch.setattr(shaping, "Forwarding", refused)
    monkeypatch.setattr(shaping, "entered", lambda router: nullcontext())
    port = Port(router=0, name="p1", namespace=0, netlink=None, device="eth0", index=2)
    with pytest.raises(DdlbenchError, match=r"modprobe sch_netem.*Protocol not supported"):
        shaping.choose_backend([port], 1.0)


def test_a_congestion_control_that_the_kernel_lacks_is_told_with_those_that_it_has():
    star._check_congestion_control("reno")
    with pytest.raises(ConfigError, match=r"no 'nosuch' ready, but .*reno.*modprobe tcp_nosuch"):
        star._check_congestion_control("nosuch")
