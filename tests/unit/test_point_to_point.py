"""Probes as rows and in NetPIPE's format."""

import csv
import io

import pytest

from ddlbench.measurements.point_to_point import as_csv, as_netpipe, from_netpipe, latency_us, rows

TIMES_S = {1: [10e-6, 12e-6, 11e-6], 1_048_576: [0.01, 0.01, 0.02], 4: []}
CONDITIONS = {"tool": "ddlbench", "transport": "tcp", "fabric": "emulated", "dilation": 1.0, "complete": True}


def test_a_row_has_the_median_its_interval_and_the_throughput_of_both():
    _, large = rows(TIMES_S, CONDITIONS)
    assert large["one_way_us"] == pytest.approx(10_000)
    assert large["throughput_mbit"] == pytest.approx(838.8608)  # 2^20 bytes in 10 ms
    assert large["throughput_mbit_low"] <= large["throughput_mbit"] <= large["throughput_mbit_high"]
    assert large["repetitions"] == 3


def test_what_was_not_measured_has_no_row():
    assert [row["size_bytes"] for row in rows(TIMES_S, CONDITIONS)] == [1, 1_048_576]


def test_latency_is_the_time_of_a_small_message():
    assert latency_us(rows(TIMES_S, CONDITIONS)) == pytest.approx(11)
    assert latency_us([]) is None


def test_netpipes_format_counts_in_2_to_the_20_bits_and_seconds():
    line = as_netpipe(rows(TIMES_S, CONDITIONS)).splitlines()[1]
    assert line.split() == ["1048576", "800.000000", "0.010000000"]


def test_what_is_written_in_netpipes_format_is_read_again():
    assert from_netpipe(as_netpipe(rows(TIMES_S, CONDITIONS))) == {1: [11e-6], 1_048_576: [0.01]}


def test_the_csv_has_a_line_a_size_and_units_in_its_columns():
    lines = list(csv.DictReader(io.StringIO(as_csv(rows(TIMES_S, CONDITIONS)))))
    assert [line["size_bytes"] for line in lines] == ["1", "1048576"]
    assert lines[0]["one_way_us"] == "11"
    assert lines[0]["link"] == ""  # not an emulated link of a name
