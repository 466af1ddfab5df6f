"""The emulation's own error: found by how many hosts share a core and what divides it, and added to bounds."""

from dataclasses import replace

import pandas as pd
import pytest

from benchmarks.common import with_worst_cases
from ddlbench.errors import ConfigError
from ddlbench.figures.bars import widest
from ddlbench.network.hosts import Host, Placement
from ddlbench.protocol.codec import written
from ddlbench.shares.systematic_error import Judged, WorstCase, read_judged, systematic_error
from tests.support.repository import REPOSITORY


def judged(on_a_core: int, percent: float, divided_between: str = "sessions") -> WorstCase:
    return WorstCase(
        of="hosts",
        on_a_core=on_a_core,
        divided_between=divided_between,
        percent=percent,
        cases=12,
        date="2026-11-24",
        commit="0123456789",
        machine="AMD EPYC, 2 cores",
    )


JUDGED = Judged(
    (
        judged(2, 7.5),
        judged(4, 9),
        judged(8, 15),
        judged(2, 11, "control groups"),
        judged(4, 8, "control groups"),
    )
)


def sharing(hosts: int, *, waits: bool = False) -> Placement:
    """Hosts of which so many share a core."""
    return Placement((Host("h1", "10.66.0.1", (0,), 1, 1, 1 / hosts),), float(hosts), False, waits=waits)


@pytest.mark.parametrize(
    ("hosts", "between", "percent"),
    [(2, "sessions", 7.5), (3, "sessions", 9), (4, "sessions", 9), (2, "control groups", 11)],
)
def test_the_error_is_that_of_as_many_hosts_on_a_core_or_of_the_next_more(hosts, between, percent):
    found = systematic_error(JUDGED, sharing(hosts), between)
    assert found is not None
    assert found["percent"] == percent


@pytest.mark.parametrize(
    ("hosts", "between", "percent"),
    [(2, "containers", 11), (4, "containers", 9), (8, "containers", 15), (2, None, 11)],
)
def test_where_what_divides_the_core_was_not_judged_the_larger_error_counts(hosts, between, percent):
    found = systematic_error(JUDGED, sharing(hosts), between)
    assert found is not None
    assert found["percent"] == percent


def test_vcpus_of_one_core_have_an_error_of_their_own_that_is_multiplied_by_that_of_sharing():
    of_two, of_eight = (replace(judged(count, 20), of="vcpus", divided_between=None) for count in (2, 8))
    both = Judged((*JUDGED.worst_cases, of_two))
    percent = {
        (hosts, vcpus): found and found["percent"]
        for hosts, vcpus in ((1, 1), (1, 2), (1, 4), (2, 2), (2, 1), (16, 2))
        for found in [systematic_error(both, sharing(hosts), "sessions", vcpus)]
    }
    alone = {(1, 1): None, (1, 2): 20, (1, 4): 20, (2, 1): 7.5, (16, 2): None}
    assert percent == alone | {(2, 2): 29}  # 1.075 x 1.2
    most = systematic_error(Judged((of_two, replace(of_eight, percent=30.0))), sharing(1), None, 4)
    assert most is not None
    assert most["percent"] == 30


def test_of_more_hosts_than_were_judged_and_of_hosts_that_share_nothing_no_error_is_known(tmp_path):
    assert systematic_error(JUDGED, sharing(9), "sessions") is None
    assert systematic_error(JUDGED, sharing(8), "control groups") is None
    assert systematic_error(JUDGED, sharing(2), "nothing") is None
    assert systematic_error(JUDGED, sharing(1), None) is None
    assert systematic_error(JUDGED, sharing(2, waits=True), None) is None
    assert systematic_error(read_judged(tmp_path / "none.json"), sharing(2), "sessions") is None


@pytest.mark.parametrize("content", ["{", "[]", '{"hosts_on_a_core": {"2": {"percent": 7, "cases": 12}}}'])
def test_a_damaged_file_is_named_with_what_writes_it(tmp_path, content):
    file = tmp_path / "error.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"error\.json.*`python -m benchmarks dilation`"):
        read_judged(file)


def test_the_file_of_this_repository_can_be_read():
    assert read_judged(REPOSITORY / "config/emulation_error.json").worst_cases


def test_what_is_judged_again_takes_the_place_of_the_same_and_the_larger_of_two_counts(tmp_path):
    newer = [judged(2, 6), judged(2, 5), judged(16, 20)]
    kept = with_worst_cases(JUDGED, newer)
    assert set(kept.worst_cases) == {newer[0], newer[2], *JUDGED.worst_cases[1:]}
    (tmp_path / "error.json").write_text(written(kept))
    assert read_judged(tmp_path / "error.json") == kept


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
