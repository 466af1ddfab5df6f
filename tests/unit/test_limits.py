"""Links whose rate or queues fit into no kernel, or not into this machine, are refused before anything starts."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.network.limits import Capacity, LinkRefused, check_queues
from ddlbench.network.link import Link
from ddlbench.probes import collective_probe, link_probe, ucx_probe
from ddlbench.sweep.link_monitor import Links
from ddlbench.system.clock import Clock

GIB = 2**30


def refused(link: Link, *, hosts: int = 2, dilation: float = 1.0, memory_bytes: int = 64 * GIB) -> str:
    with pytest.raises(LinkRefused) as refusal:
        check_queues(link, hosts=hosts, dilation=dilation, memory_bytes=memory_bytes)
    return str(refusal.value)


def test_a_rate_that_the_kernel_cannot_count_is_refused_with_the_dilation_that_makes_it_possible():
    said = refused(Link(100_000))
    assert "shapes 34,360 Mbit/s at most" in said
    assert "Set `dilation` to 3 or more" in said
    assert "with a time dilation of 2 it is made with 50,000 Mbit/s" in refused(Link(100_000), dilation=2)
    check_queues(Link(100_000), hosts=2, dilation=3, memory_bytes=64 * GIB)


def test_a_rate_that_takes_longer_for_a_burst_than_the_kernel_can_count_is_refused():
    said = refused(Link(0.01), dilation=64)
    assert "with a time dilation of 64 it is made with 0.00016 Mbit/s" in said
    assert "shapes 0.0025 Mbit/s at least" in said
    check_queues(Link(0.01), hosts=2, dilation=4, memory_bytes=64 * GIB)


def test_queues_that_do_not_fit_into_memory_are_refused_with_what_they_need():
    # 1.25 MB a millisecond: queued for one round trip and 50 ms at both ends, and in flight for one way
    said = refused(Link(10_000, 200), hosts=4, memory_bytes=8 * GIB)
    assert "what 4 hosts have queued at both ends and in flight takes up to 5.52 GB" in said
    assert "2.15 GB may be used for that (25% of the 8.59 GB that are available" in said
    check_queues(Link(10_000, 200), hosts=4, dilation=1, memory_bytes=24 * GIB)


def test_no_dilation_makes_a_queue_smaller():
    link = Link(1000, 2000)
    assert refused(link, memory_bytes=GIB) == refused(link, memory_bytes=GIB, dilation=10)


def test_a_queue_that_tbf_cannot_count_is_refused():
    assert "tbf holds 4.29 GB at most" in refused(Link(10_000, 2000), memory_bytes=1024 * GIB)


@pytest.mark.parametrize("probe", [link_probe, ucx_probe, collective_probe])
def test_each_probe_refuses_a_link_that_no_kernel_makes_before_it_is_made(probe, monkeypatch):
    star: Any = SimpleNamespace(addresses=["10.66.0.1", "10.66.0.2"], dilation=1.0, backend=None, shape=None)
    group = SimpleNamespace(group=None, hosts=SimpleNamespace(star=star))
    for name, replaced in {
        "Star": lambda *_, **__: nullcontext(star),
        "launched": lambda job: nullcontext(group),
        "_show_own_sysfs": lambda star: None,
    }.items():
        monkeypatch.setattr(probe, name, replaced, raising=False)
    job: Any = SimpleNamespace(
        link=Link(100_000), dilation=1.0, congestion_control="cubic", wanted=[], group=None
    )
    with pytest.raises(LinkRefused, match=r"shapes 34,360 Mbit/s at most"):
        probe.run(job)


def test_a_latency_that_cannot_be_made_is_refused_where_the_rate_is_known_too(monkeypatch):
    monkeypatch.setattr(Capacity, "is_known", lambda *_, **__: True)
    star: Any = SimpleNamespace(dilation=1.0, backend=None, links=lambda link: [link], shape=None)
    links = Links(star, None, recheck_s=1, clock=Clock())
    with pytest.raises(LinkRefused, match=r"frames of 1,514 bytes are in flight"):
        links.make(Link(1000, 20_000))
