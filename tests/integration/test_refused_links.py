"""A link that cannot be made is refused, with the limit and how it was found."""

import re

import pytest


def test_a_rate_above_what_the_machine_forwards_is_refused_with_what_it_forwards(sandbox, backend):
    said = sandbox("refused", backend=backend, link={"bandwidth_mbit": 400_000}, dilation=1)
    found = re.search(
        r"this machine forwards ([\d,]+) Mbit/s between emulated hosts \(measured just now", said
    )
    assert found
    limit_mbit = float(found[1].replace(",", ""))
    assert 0 < limit_mbit < 800_000
    assert "800,000 Mbit/s in all" in said
    least = int(re.search(r"Set `dilation` to (\d+) or more", said)[1])
    # Of a limit that is said in whole Mbit/s: of few, which a busy machine may forward, that is far from exact.
    assert 800_000 / (limit_mbit + 0.5) <= least <= 800_000 / (limit_mbit - 0.5) + 1
    affordable = re.search(r"at most ([\d,]+) Mbit/s a host", said)[1]
    assert float(affordable.replace(",", "")) == pytest.approx(limit_mbit / 2, abs=1)


def test_what_is_refused_without_dilation_can_be_had_with_enough_of_it(sandbox, backend):
    # 1 Mbit/s is all that is needed then: a busy machine too forwards that.
    link = {"bandwidth_mbit": 400_000}
    assert sandbox("refused", backend=backend, link=link, dilation=800_000) is None


def test_measuring_what_is_forwarded_leaves_the_links_as_they_were(sandbox, backend):
    found = sandbox("forwarded_in_turn", backend=backend)
    assert min(found["mbit"]) > 0
    assert set(found["trains"]) == {65536}


def test_a_latency_whose_packets_fit_into_no_queue_is_refused_where_a_queue_is_what_delays(sandbox):
    said = sandbox("refused", backend="tbf+nfqueue", link={"bandwidth_mbit": 10_000, "latency_ms": 500})
    assert "412,813 frames of 1,514 bytes are in flight at a time" in said
    assert "is set to hold 400,000" in said
    assert "at most 484.5 ms" in said


@pytest.mark.parametrize("backend", ["tbf+netem"])  # below another kernel where this one lacks it
def test_a_latency_beyond_what_netem_counts_is_refused(sandbox, backend):
    said = sandbox("refused", backend=backend, link={"bandwidth_mbit": 1, "latency_ms": 50_000}, dilation=10)
    assert "it is made with 500,000 ms, and the kernel's netem delays by 274,878 ms at most" in said
