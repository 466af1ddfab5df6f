"""Figures of probes, on made-up tables: what they show and what they say."""

import re

import pandas as pd
import pytest
from made_up_tables import figure

from ddlbench.figures import captioning, draw, drawing, drawn_rows
from ddlbench.figures.probe import how_probed
from ddlbench.figures.wang2019 import claim
from ddlbench.plan import PointToPoint

SIZES = (1, 1024, 65536, 1048573)
OVERHEAD_US = 0.1
RATES = {"infiniband-edr": 100_000, "ten-gigabit-tcp": 10_000}


def made_up(*, netpipe=True, burst_bytes=0):
    """Tables of both links. NOT measurements: a message takes the overhead and its bits' time, if it is no burst."""
    tables = []
    for link, rate in RATES.items():
        for tool in ("ddlbench", *(["NPtcp"] if netpipe else [])):
            for size in SIZES:
                wire_us = 0 if size <= burst_bytes else size * 8 / rate
                throughput = size * 8 / (OVERHEAD_US + wire_us)
                ends = (0.98, 1.02) if tool == "ddlbench" else (None, None)
                low, high = (end and throughput * end for end in ends)
                tables.append(
                    {
                        "tool": tool, "transport": "tcp", "fabric": "emulated", "link": link, "bandwidth_mbit": rate,
                        "latency_ms": 0, "loss_percent": 0, "dilation": 200, "size_bytes": size,
                        "one_way_us": OVERHEAD_US + wire_us,
                        "throughput_mbit": throughput, "throughput_mbit_low": low, "throughput_mbit_high": high,
                        "repetitions": 5, "complete": True, "host": "made-up CPU, 2 cores",
                    }
                )  # fmt: skip
    return pd.DataFrame(tables)


@pytest.fixture
def shown():
    return figure(
        "wang2019_fig2",
        "size_bytes",
        "throughput_mbit",
        kind="probe",
        x_scale="log",
        y_scale="log",
        probes=tuple(PointToPoint(link, 200.0, "tcp") for link in RATES),
    )


def test_each_line_says_link_emulation_dilation_and_tool(shown):
    rows = drawn_rows(drawing(shown)(made_up(), shown))
    assert list(rows["series"].cat.categories) == [
        "InfiniBand EDR, emulated, k = 200",
        "InfiniBand EDR, emulated, k = 200, NetPIPE's NPtcp",
        "10 GbE, emulated, k = 200",
        "10 GbE, emulated, k = 200, NetPIPE's NPtcp",
    ]


def test_the_claimed_ratio_stands_beside_that_of_the_links_which_is_not_called_measured(shown):
    text = claim(drawn_rows(drawing(shown)(made_up(), shown)))
    assert "14 times as fast at 1000 kB" in text
    assert "rates were set, 10 times apart" in text
    assert "at 1,048,573 bytes that makes 9.99 times" in text
    assert "Measured" not in text


def test_the_time_of_software_that_dilation_divides_is_said(shown):
    said = captioning(shown)(drawn_rows(drawing(shown)(made_up(), shown)), shown)
    assert "Dilation divides the time of this machine's software too, 20.2 µs" in said


def test_the_claim_is_in_the_picture_and_in_the_reports_caption(shown, tmp_path):
    files = [
        tmp_path / f"wang2019_fig2{ending}" for ending in (".svg", ".pdf", ".png", ".csv", ".caption.rst")
    ]
    draw("wang2019_fig2", [made_up()], shown, files)
    assert all(file.stat().st_size for file in files)
    for file in (files[0], files[-1]):
        text = " ".join(re.sub("<[^>]*>", " ", file.read_text()).split())
        assert "14 times" in text
        assert "9.99 times" in text
        assert "Time dilation 200" in text
        assert "Emulated hosts and network" in text


@pytest.mark.parametrize(
    ("repetitions", "bands"),
    [
        (5, "; bands: 95 % intervals."),
        (4, "; bands: the range of too few repetitions for an interval."),
        (1, "repetitions."),
    ],
)
def test_bands_are_called_intervals_only_of_as_many_repetitions_as_these_need(shown, repetitions, bands):
    rows = drawn_rows(drawing(shown)(made_up().assign(repetitions=repetitions), shown))
    assert f"Lines: the median of {repetitions} " in captioning(shown)(rows, shown)
    assert how_probed(rows)[0].endswith(bands)


def test_that_netpipe_did_not_run_is_said(shown):
    said = {
        netpipe: captioning(shown)(drawn_rows(drawing(shown)(made_up(netpipe=netpipe), shown)), shown)
        for netpipe in (True, False)
    }
    assert "NPtcp did not run here" in said[False]
    assert "NPtcp did not run here" not in said[True]


def test_messages_that_outrun_their_link_are_owned_up_to(shown):
    said = captioning(shown)(drawn_rows(drawing(shown)(made_up(burst_bytes=65536), shown)), shown)
    assert "messages of up to 65,536 bytes, some of which outrun the emulated link" in said
    assert "outrun" not in captioning(shown)(drawn_rows(drawing(shown)(made_up(), shown)), shown)


def test_a_probe_without_code_of_its_own_is_drawn_by_the_names_of_its_links(shown):
    other = figure(
        "small2000_fig9", "size_bytes", "throughput_mbit", kind="probe", probes=shown.probes, x_scale="log"
    )
    rows = drawn_rows(drawing(other)(made_up(netpipe=False), other))
    assert "ten-gigabit-tcp, emulated, k = 200" in set(rows["series"])
