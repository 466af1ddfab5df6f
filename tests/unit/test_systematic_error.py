"""The emulation's own error: found by how many hosts share a core, and added to bounds."""

import json

import pandas as pd
import pytest

from ddlbench.errors import ConfigError
from ddlbench.figures.bars import widest
from ddlbench.network.hosts import Host, Placement
from ddlbench.shares.systematic_error import systematic_error

JUDGED = {
    "hosts_on_a_core": {"2": {"percent": 7.5, "cases": 12}, "4": {"percent": 9, "cases": 12}},
    "date": "2026-11-24",
    "commit": "0123456789",
    "machine": "AMD EPYC, 2 cores",
}


def sharing(hosts: int, *, waits: bool = False) -> Placement:
    """Hosts of which so many share a core."""
    return Placement((Host("h1", "10.66.0.1", (0,), 1, 1, 1 / hosts),), float(hosts), False, waits=waits)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "error.json").write_text(json.dumps(JUDGED))
    return tmp_path / "error.json"


@pytest.mark.parametrize(("hosts", "percent"), [(2, 7.5), (3, 9), (4, 9)])
def test_the_error_is_that_of_as_many_hosts_on_a_core_or_of_the_next_more(file, hosts, percent):
    found = systematic_error(sharing(hosts), file)
    assert found is not None
    assert found["percent"] == percent
    assert found["commit"] == JUDGED["commit"]


def test_of_more_hosts_than_were_judged_and_of_hosts_that_share_nothing_no_error_is_known(file, tmp_path):
    assert systematic_error(sharing(5), file) is None
    assert systematic_error(sharing(1), file) is None
    assert systematic_error(sharing(2, waits=True), file) is None
    assert systematic_error(sharing(2), tmp_path / "none.json") is None


@pytest.mark.parametrize("content", ["{", "[]", '{"hosts_on_a_core": {"two": 1}}'])
def test_a_damaged_file_is_named(file, content):
    file.write_text(content)
    with pytest.raises(ConfigError, match="`python -m benchmarks dilation` writes it"):
        systematic_error(sharing(2), file)


def test_bounds_are_wider_by_the_error_where_it_is_known():
    rows = pd.DataFrame(
        {
            "step_time_ms": [10.0, 10.0, 10.0],
            "step_time_ms_low": [9.0, None, 9.0],
            "step_time_ms_high": [11.0, None, 11.0],
            "systematic_error_percent": [10.0, 10.0, None],
        }
    )
    low, high = widest(rows, "step_time_ms")
    assert list(low) == pytest.approx([9 / 1.1, 10 / 1.1, 9])
    assert list(high) == pytest.approx([12.1, 11, 11])

    in_ms = rows.rename(columns=lambda name: name.replace("step_time", "training_time"))
    assert [list(each) for each in widest(in_ms, "training_time_ms")] == [list(low), list(high)]

    threads = {"vcpu_speedup": [2.0, 2.0, None], "vcpu_speedup_low": [1.6, 1.9, None]}
    rows = rows.assign(**threads, vcpu_speedup_high=[2.2, 3.0, None])
    low, high = widest(rows, "step_time_ms")
    assert list(low) == pytest.approx([9 / 1.1 / 1.25, 10 / 1.1 / 1.5, 9])
    assert list(high) == pytest.approx([12.1 * 1.25, 11 * 1.5, 11])
