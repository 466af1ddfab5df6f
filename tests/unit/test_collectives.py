"""Bandwidths of collectives, as NVIDIA's nccl-tests defines them, and the rows that a probe leaves."""

import csv
import io

import pytest

from ddlbench.measurements.collectives import (
    BUS_FACTORS,
    algorithm_bandwidth_mbit,
    as_csv,
    bus_bandwidth_mbit,
    rows,
    whole_bytes,
)

MB = 1_000_000


def test_algorithm_bandwidth_is_size_over_time():
    assert algorithm_bandwidth_mbit(10 * MB, 0.1) == pytest.approx(800)


@pytest.mark.parametrize(
    ("collective", "factors"),
    [  # doc/PERFORMANCE.md of nccl-tests, for 2, 4 and 8 ranks
        ("all_reduce", (1, 1.5, 1.75)),
        ("reduce_scatter", (0.5, 0.75, 0.875)),
        ("all_gather", (0.5, 0.75, 0.875)),
        ("broadcast", (1, 1, 1)),
    ],
)
def test_bus_bandwidth_has_the_factors_of_nccl_tests(collective, factors):
    assert tuple(BUS_FACTORS[collective](hosts) for hosts in (2, 4, 8)) == pytest.approx(factors)


@pytest.mark.parametrize("collective", BUS_FACTORS)
@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_an_operation_that_uses_the_busiest_link_fully_has_its_rate_as_bus_bandwidth(collective, hosts):
    rate_mbit = 1000
    carried = {  # what the busiest link must carry in one direction, of an array of 8 MB
        "all_reduce": 2 * (hosts - 1) / hosts,
        "broadcast": 1,
        "reduce_scatter": (hosts - 1) / hosts,
        "all_gather": (hosts - 1) / hosts,
        "push": hosts - 1,
        "pull": hosts - 1,
    }[collective]
    seconds = carried * 8 * MB * 8 / (rate_mbit * 1e6)
    assert bus_bandwidth_mbit(collective, hosts, 8 * MB, seconds) == pytest.approx(rate_mbit)


@pytest.mark.parametrize("hosts", [2, 3, 5])
@pytest.mark.parametrize("size_bytes", [4, 1024, 4194304])
def test_every_host_has_as_many_whole_elements_of_a_divided_array(hosts, size_bytes):
    found = whole_bytes("all_gather", size_bytes, hosts)
    assert found % (4 * hosts) == 0
    assert found <= max(size_bytes, 4 * hosts)
    assert whole_bytes("all_reduce", size_bytes, hosts) == size_bytes


def test_the_interval_of_a_bandwidth_is_that_of_the_time_turned_around():
    (row,) = rows({("broadcast", MB): [0.010, 0.011, 0.012, 0.013, 0.014]}, 2, {}, {})
    assert row["time_us_low"] < row["time_us"] < row["time_us_high"]
    assert row["bus_bandwidth_mbit_low"] == pytest.approx(8e6 / row["time_us_high"])
    assert row["bus_bandwidth_mbit_high"] == pytest.approx(8e6 / row["time_us_low"])


def test_what_is_not_available_is_a_row_that_says_why_and_has_no_value():
    found = rows({}, 4, {"reduce_scatter": "there is none"}, {"transport": "gloo"})
    (row,) = csv.DictReader(io.StringIO(as_csv(found)))
    assert (row["status"], row["reason"]) == ("not_available", "there is none")
    assert row["time_us"] == row["bus_bandwidth_mbit"] == ""
