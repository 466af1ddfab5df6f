"""Sites are joined as they were asked to be, each direction by itself: measured by iperf3 and by plain sockets."""

from statistics import quantiles
from typing import Any

import pytest

GOODPUT = 1448 / 1514  # of TCP in Ethernet frames of 1,514 bytes: 0.956
LAN = {"bandwidth_mbit": 500}


def sites(there: dict[str, float], back: dict[str, float], lan: dict[str, float] = LAN) -> dict[str, Any]:
    """Two sites, two hosts on the near one and one on the far one, and the links there and back."""
    return {
        "sites": ["near", "far"],
        "lans": {"near": lan, "far": LAN},
        "wans": {"near -> far": there, "far -> near": back},
    }


def test_each_direction_between_two_sites_has_its_own_latency(sandbox, backend):
    there, back = {"bandwidth_mbit": 100, "latency_ms": 10}, {"bandwidth_mbit": 100, "latency_ms": 30}
    found = sandbox("site_times_ms", backend=backend, sites=sites(there, back))
    times = {way: min(values) for way, values in found.items()}
    late = sandbox("late_ms", backend=backend)  # each way; what the hosts' own work takes, the LAN shows
    assert times["lan"] < 2
    assert -0.8 < times["wan"] - times["lan"] - 40 < 0.8 + 2 * late
    assert -0.8 < times["near -> far"] - times["lan"] / 2 - 10 < 0.8 + late
    assert -0.8 < times["far -> near"] - times["lan"] / 2 - 30 < 0.8 + late


def test_a_hosts_lan_comes_on_top_of_the_wan(sandbox):
    wan, lan = {"bandwidth_mbit": 100, "latency_ms": 10}, {"bandwidth_mbit": 100, "latency_ms": 5}
    found = sandbox("site_times_ms", backend=None, sites=sites(wan, wan, lan))
    assert min(found["lan"]) == pytest.approx(10, abs=1)
    assert min(found["near -> far"]) == pytest.approx(15, abs=1)
    assert min(found["far -> near"]) == pytest.approx(10, abs=1)


@pytest.mark.needs("iperf3")
def test_each_direction_between_two_sites_has_its_own_bandwidth(sandbox, backend, backends):
    percent, scale = (2, 1) if backend in backends else (5, 0.1)  # a kernel that is a process itself is slow
    nominal = {"near -> far": 200 * scale, "far -> near": 50 * scale}
    made = sites(*({"bandwidth_mbit": rate, "latency_ms": 2} for rate in nominal.values()))
    wanted = {way: rate * GOODPUT for way, rate in nominal.items()}
    found = sandbox("site_rates_mbit", backend=backend, sites=made, wanted=wanted, percent=percent)
    for way, rates in found.items():
        assert rates[-1] == pytest.approx(wanted[way], rel=percent / 100), found


def test_each_direction_between_two_sites_loses_its_own_packets(sandbox, backend):
    there, back = {"bandwidth_mbit": 1000, "loss_percent": 2}, {"bandwidth_mbit": 1000}
    found = sandbox("site_losses_percent", backend=backend, sites=sites(there, back), packets=20_000)
    assert found["near -> far"] == pytest.approx(2, abs=0.35)
    assert found["far -> near"] == 0


def test_jitter_spreads_latencies_evenly_and_no_packet_overtakes_another(sandbox, backend):
    link = {"bandwidth_mbit": 100, "latency_ms": 20, "jitter_ms": 8}
    found = sandbox("jitter", backend=backend, link=link, times=80)
    times = sorted(found["times_ms"])  # of which a busy machine makes some longer: quartiles do not mind
    lower, middle, upper = quantiles(times, n=4)
    assert 11.5 < times[0] < 14
    assert middle == pytest.approx(20, abs=3)  # chance alone: 99.9 % of the time
    assert lower == pytest.approx(16, abs=3)
    assert upper == pytest.approx(24, abs=3)
    assert found["order"] == list(range(100))


def test_the_probe_finds_every_link_between_sites_to_be_what_it_is(sandbox, backend):
    there = {"bandwidth_mbit": 20, "latency_ms": 10, "loss_percent": 1}
    back = {"bandwidth_mbit": 10, "latency_ms": 20, "jitter_ms": 10}
    asked = sites(there, back, {"bandwidth_mbit": 20, "latency_ms": 5})
    asked["lans"]["far"] = {"bandwidth_mbit": 20}
    found = sandbox("probe_sites", backend=backend, made=asked, asked=asked)["found"]
    assert found.keys() == {"near", "far", "near -> far", "far -> near"}
    for name, link in (asked["lans"] | asked["wans"]).items():
        assert found[name]["rate_mbit"] == pytest.approx(link["bandwidth_mbit"], rel=0.05)
        tolerance_ms = 2 + 0.3 * link.get("jitter_ms", 0)
        assert found[name]["latency_ms"] == pytest.approx(link.get("latency_ms", 0), abs=tolerance_ms)
        assert found[name]["loss_percent"] == pytest.approx(link.get("loss_percent", 0), abs=0.5)
    assert found["far -> near"]["jitter_ms"] == pytest.approx(10, rel=0.25)


def test_the_probe_names_the_direction_that_is_not_what_was_asked_for(sandbox):
    wan = {"bandwidth_mbit": 20, "latency_ms": 10, "loss_percent": 0}
    other = {"bandwidth_mbit": 40, "latency_ms": 30, "loss_percent": 3}
    text = sandbox("probe_sites", backend=None, made=sites(wan, wan), asked=sites(wan, other))["refused"]
    assert text.startswith(
        "far -> near: the emulated WAN is not what was asked for (40 Mbit/s, 30 ms, 3 % loss"
    )
    for number, unit in (("40", "Mbit/s"), ("30", "ms"), ("3", "%")):
        assert f" instead of {number} {unit}" in text


def test_dilation_leaves_the_links_between_sites_as_they_are_called(sandbox):
    there = {"bandwidth_mbit": 400, "latency_ms": 10}
    back = {"bandwidth_mbit": 100, "latency_ms": 20, "jitter_ms": 5}
    asked = sites(there, back)
    found = sandbox("probe_sites", backend=None, made=asked, asked=asked, dilation=4)
    assert "refused" not in found, found["refused"]
