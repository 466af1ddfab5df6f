"""Sites are joined as they were asked to be, each direction by itself: found by iperf3 and by plain sockets.

Here is what no busy machine changes: what the kernel is told, what is counted, that no direction is faster than asked.
"""

from typing import Any

import pytest

pytestmark = pytest.mark.long
GOODPUT = 1448 / 1514  # of TCP in Ethernet frames of 1,514 bytes: 0.956
EARLY_MS = (
    0.5  # a packet is let go 0.2 ms early, which that takes, on each of two ways; a delay is never shorter
)
LAN = {"bandwidth_mbit": 500}
TIMES = 15  # of what is timed


def sites(there: dict[str, float], back: dict[str, float], lan: dict[str, float] = LAN) -> dict[str, Any]:
    """Two sites, two hosts on the near one and one on the far one, and the links there and back."""
    return {
        "sites": ["near", "far"],
        "lans": {"near": lan, "far": LAN},
        "wans": {"near -> far": there, "far -> near": back},
    }


def test_each_direction_between_two_sites_has_its_own_latency(sandbox, backend):
    there, back = {"bandwidth_mbit": 100, "latency_ms": 10}, {"bandwidth_mbit": 100, "latency_ms": 30}
    found = sandbox("site_times_ms", backend=backend, sites=sites(there, back), times=TIMES)
    assert min(found["wan"]) > 40 - EARLY_MS
    assert min(found["near -> far"]) > 10 - EARLY_MS
    assert min(found["far -> near"]) > 30 - EARLY_MS
    # Neither has the other's, and what stays on a site passes neither.
    ways = {"near -> far": 10, "far -> near": 30}
    assert found["given_ms"] == dict.fromkeys(("near 1", "near 2", "far 3"), 0) | ways
    # The kernel sends packets by itself, to find neighbours, but not one for each connection.
    assert max(found["passed_of_lan"][way] for way in ways) < TIMES
    assert min(found["passed_of_lan"][host] for host in ("near 1", "near 2")) >= TIMES


def test_a_hosts_lan_comes_on_top_of_the_wan(sandbox):
    wan, lan = {"bandwidth_mbit": 100, "latency_ms": 10}, {"bandwidth_mbit": 100, "latency_ms": 5}
    found = sandbox("site_times_ms", backend=None, sites=sites(wan, wan, lan))
    assert min(found["lan"]) > 10 - EARLY_MS
    assert min(found["near -> far"]) > 15 - EARLY_MS
    assert min(found["far -> near"]) > 10 - EARLY_MS


@pytest.mark.needs("iperf3")
def test_each_direction_between_two_sites_has_its_own_bandwidth(sandbox, backend, backends):
    scale = 1 if backend in backends else 0.1  # a kernel that is a process itself is slow
    rates = {"near -> far": 200 * scale, "far -> near": 50 * scale}
    wans = {way: {"bandwidth_mbit": rate, "latency_ms": 2} for way, rate in rates.items()}
    found = sandbox("iperf3_between_sites", backend=backend, sites=sites(*wans.values()), wans=wans)
    for each in found.values():  # tbf holds back what comes faster, however busy the machine
        assert each["told"] / GOODPUT <= each["allowed"]
    assert found["near -> far"]["told"] > 0


def test_each_direction_between_two_sites_loses_its_own_packets(sandbox, backend):
    there, back = {"bandwidth_mbit": 1000, "loss_percent": 2}, {"bandwidth_mbit": 1000}
    found = sandbox("site_losses_percent", backend=backend, sites=sites(there, back), packets=20_000)
    assert found["near -> far"] == pytest.approx(2, abs=0.5)  # by chance alone: five deviations
    assert found["far -> near"] == 0


def test_jitter_spreads_latencies_and_no_packet_overtakes_another(sandbox, backend):
    """That a half of them come early too is the kernel's promise, or `test_delay`'s."""
    link = {"bandwidth_mbit": 100, "latency_ms": 20, "jitter_ms": 8}
    found = sandbox("jitter", backend=backend, link=link, times=80)
    assert found["order"] == list(range(100))
    assert min(found["times_ms"]) > 12 - EARLY_MS
    assert max(found["times_ms"]) > 20  # of eighty packets, half of which are to be late
    assert (found["netem_jitter"] > 0) is (backend == "tbf+netem")


def test_the_probe_finds_every_link_between_sites_to_be_what_it_is(sandbox, backend):
    there = {"bandwidth_mbit": 20, "latency_ms": 10, "loss_percent": 1}
    back = {"bandwidth_mbit": 10, "latency_ms": 20, "jitter_ms": 10}
    asked = sites(there, back, {"bandwidth_mbit": 20, "latency_ms": 5})
    asked["lans"]["far"] = {"bandwidth_mbit": 20}
    found = sandbox("probe_sites", backend=backend, made=asked, asked=asked)["found"]
    assert found.keys() == {"near", "far", "near -> far", "far -> near"}
    for name, link in (asked["lans"] | asked["wans"]).items():
        assert found[name]["rate_mbit"] > 0
        earliest_ms = link.get("latency_ms", 0) - link.get("jitter_ms", 0)
        assert found[name]["latency_ms"] > earliest_ms - EARLY_MS
        assert found[name]["loss_percent"] > link.get("loss_percent", 0) - 0.4  # chance: five deviations
    assert found["far -> near"]["jitter_ms"] > 0


def test_the_probe_names_the_direction_that_is_not_what_was_asked_for(sandbox):
    # It has less than was asked for, comes later and loses nothing: a busy machine makes none of that good.
    wan = {"bandwidth_mbit": 20, "latency_ms": 300, "loss_percent": 0}
    other = {"bandwidth_mbit": 2000, "latency_ms": 1, "loss_percent": 40}
    text = sandbox("probe_sites", backend=None, made=sites(wan, wan), asked=sites(wan, other))["refused"]
    assert text.startswith(
        "far -> near: the emulated WAN is not what was asked for (2000 Mbit/s, 1 ms, 40 % loss"
    )
    for number, unit in (("2000", "Mbit/s"), ("1", "ms"), ("40", "%")):
        assert f" instead of {number} {unit}" in text


def test_dilation_leaves_the_links_between_sites_as_they_are_called(sandbox):
    there = {"bandwidth_mbit": 400, "latency_ms": 10}
    back = {"bandwidth_mbit": 100, "latency_ms": 20}
    asked = sites(there, back)
    found = sandbox("probe_sites", backend=None, made=asked, asked=asked, dilation=4)
    assert "refused" not in found, found["refused"]
    rates = [each["tbf"]["rate"] for name, each in found["settings"].items() if " back" not in name]
    assert rates == [mbit * 1e6 / 8 / 4 for mbit in (500, 500, 500, 400, 100)]
    assert (
        found["found"]["near -> far"]["latency_ms"] > 10 - EARLY_MS
    )  # of a clock that is four times as fast
    assert found["found"]["far -> near"]["latency_ms"] > 20 - EARLY_MS
