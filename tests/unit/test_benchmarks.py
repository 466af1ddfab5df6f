"""The parts of benchmarks/ that decide without measuring."""

import json
import random
from importlib import import_module
from itertools import combinations
from typing import Any

import pytest

from benchmarks import api, groups, probe, report, share, sweep, torchrun_loop
from ddlbench.probes.ping_pong import sizes
from tests.support.repository import REPOSITORY


def record(
    fingerprint: str, run: str, began_s: int, lasted_s: int, *, steps: int = 2, mbit: int | None = 100
) -> dict[str, Any]:
    times = [10.0] * steps
    return {
        "fingerprint": fingerprint,
        "run": run,
        "status": "measured" if steps else "does_not_fit",
        "started": f"2026-01-01T00:00:{began_s:02}+00:00",
        "ended": f"2026-01-01T00:00:{began_s + lasted_s:02}+00:00",
        "link": {"asked": {"bandwidth_mbit": mbit}} if mbit else None,
        "warmup_steps": 1,
        "step_times_ms": [times, times] if steps else [],
    }


def compared(workers: int, latency_ms: float, ours_s: float, theirs_s: float) -> dict[str, Any]:
    return {
        "id": f"{workers}-{latency_ms}",
        "point": {"workers": workers, "latency_ms": latency_ms},
        "ours_s": ours_s,
        "theirs_s": theirs_s,
    }


SESSIONS = {
    "a": {"wall_s": 20.0, "steps_s": 12.0, "probe_s": 4.0},
    "b": {"wall_s": 10.0, "steps_s": 4.0, "probe_s": 0.0},
}


def test_the_points_shares_are_the_whole_wall_time_of_a_sweep() -> None:
    records = [
        record("p1", "a", 3, 5),  # 2 s of it are the probe of the first link
        record("p2", "a", 8, 1),
        record("p3", "a", 9, 6, mbit=400),
        record("p1", "a", 15, 2),
        record("p4", "b", 21, 3, mbit=None),
        record("p5", "b", 24, 4, steps=0, mbit=None),
    ]
    times_s = sweep.own_times_s(records, SESSIONS, wall_s=35.0)
    assert sum(times_s.values()) == pytest.approx(35.0)
    # each point of session a gets a third of the 6 s of its launch, and a fifth of the 5 s outside of sessions
    assert times_s["p1"] == pytest.approx(5 + 2 - 1 + 2 + 1)
    assert times_s["p2"] == pytest.approx(1 + 1 + 2 + 1)
    assert times_s["p3"] == pytest.approx(6 + 2 + 1)
    assert times_s["p5"] == pytest.approx(4 + 1.5 + 1)


def test_torchrun_gets_the_steps_of_all_repetitions_and_one_try_at_a_point_that_does_not_fit() -> None:
    records = [record("p1", "b", 1, 2), record("p1", "b", 3, 1, steps=1), record("p2", "b", 4, 1, steps=0)]
    of_point = {"point": POINT, "dilation": 1.0, "planned_dilation": 1.0}
    swept = {"records": [each | of_point for each in records], "sessions": SESSIONS, "wall_s": 30.0}
    measured, too_large = sweep.measured_points(swept)
    assert (measured["fits"], measured["steps"]) == (True, 2 + 1 + 2)
    assert (too_large["fits"], too_large["steps"]) == (False, 1)


def test_torchrun_has_the_hosts_and_the_dilation_of_the_sweep() -> None:
    point = {"workers": 2, "vcpus": 4, "memory_gb": 0.1, "host_count": 4}
    placement = torchrun_loop.placement_of({"point": point, "planned_dilation": 8.0, "dilation": 4.75})
    assert placement["dilation"] == 4.75
    assert [host["core_share"] for host in placement["hosts"]] == [
        1 / 2,
        1 / 2,
    ]  # 8 are two hosts of 4 vCPU on a core


def test_the_strata_take_turns_in_the_order_of_the_subset() -> None:
    points = [
        {"id": f"{workers}-{number}", "point": {"workers": workers, "latency_ms": latency_ms}}
        for workers in (2, 3)
        for latency_ms in (0.0, 100.0)
        for number in range(3)
    ]
    order = sweep.picked(points, random.Random(1))
    assert len(order) == 12
    for turn in (order[:4], order[4:8], order[8:]):
        assert len({sweep.stratum(each) for each in turn}) == 4


def test_their_total_is_our_time_times_the_ratio_of_each_stratum() -> None:
    done = [compared(2, 0, ours_s=2, theirs_s=10), compared(2, 100, ours_s=10, theirs_s=20)]
    others = [compared(2, 20, ours_s=3, theirs_s=0), compared(3, 0, ours_s=1, theirs_s=0)]
    assert sweep.extrapolated_s([*done, *others], done) == pytest.approx(10 + 20 + 3 * 5 + 30 / 12)


def test_share_is_of_the_command_or_of_its_sessions() -> None:
    assert share.share_percent(SESSIONS, 32.0) == pytest.approx(50)
    assert share.share_percent(SESSIONS) == pytest.approx(100 * 16 / 30)


@pytest.mark.parametrize(
    ("name", "bound"), [("sweep", f"{sweep.AT_LEAST:g} times faster"), ("share", f"{share.AT_LEAST:g} %")]
)
def test_a_number_that_was_kept_is_judged_by_the_bound_of_its_benchmark(name: str, bound: str) -> None:
    kept = json.loads((REPOSITORY / f"benchmarks/results/{name}.json").read_text())
    assert [row["at_least"] for row in kept["rows"]] == [bound]


def test_the_table_takes_the_place_between_the_markers_and_no_other() -> None:
    page = f"# Title\n{report.BEGIN}\nold\n{report.END}\nrest\n"
    once = report.with_table(page, "new")
    assert once == f"# Title\n{report.BEGIN}\nnew\n{report.END}\nrest\n"
    assert report.with_table(once, "new") == once


@pytest.mark.parametrize("name", ["docs/accuracy.md", "README.md"])
def test_the_pages_have_the_numbers_that_were_measured(name: str) -> None:
    page = (report.ROOT / name).read_text()
    text = report.pages(report.results(report.ROOT / "benchmarks/results"))[name]
    assert report.with_table(page, text) == page, "python benchmarks/report.py writes them"


def test_the_handful_has_a_row_of_each_of_its_benchmarks_with_what_it_missed() -> None:
    names = {name: f"speed of {words}" for name, words in report.HANDFUL.items()}
    rows = {"at_least": "4", "measured": "3", "peer": "torchrun", "met": False}
    results = [
        benchmarked(name, rows | {"what": what}, rows | {"what": "else"}, asked={"turns": 5, "starts": 3})
        for name, what in names.items()
    ]
    text = report.table(report.handful([*results, benchmarked("speed", rows | {"what": "speed"})]))
    assert [line.split(" | ")[0] for line in text.splitlines()[2:7]] == [
        f"| {what}" for what in names.values()
    ]
    assert text.count("**missed:**") == len(names)


@pytest.mark.parametrize("link", list(probe.LINKS))
def test_the_blocks_of_a_curve_are_all_of_its_sizes(link: str) -> None:
    found = [
        each
        for smallest, largest in probe.blocks(link, 1 << 20)
        for each in probe.sizes_of_block(smallest, largest)
    ]
    assert found == sizes(1 << 20)


def test_the_size_that_is_farthest_from_its_peer_is_named() -> None:
    def turn(one_us: float, two_us: float) -> dict[str, Any]:
        fastest_s = {"1": one_us * 1e-6, "2": two_us * 1e-6}
        medians_s = {"1": one_us * 1.2e-6, "2": two_us * 1.2e-6}
        ours_s = {"our_fastest_s": fastest_s, "our_medians_s": medians_s}
        return {"link": "raw", **ours_s, "theirs_s": {"1": 10e-6, "2": 10e-6}}

    turns = [turn(10, 11), turn(10.5, 12), turn(30, 12.5)]  # a busy moment changes no median
    row = probe.times("raw", probe.by_size(turns, "raw"), awake=True)
    assert row["measured"].startswith(
        "1.2 (1.1 to 1.25) at 2 bytes, the worst; 1 sizes outside (2 by our medians)"
    )
    assert not row["met"]


def test_the_api_is_judged_by_the_median_of_its_turns_against_the_constant_of_the_same_turn() -> None:
    def turn(rate: float, constant: float, p99_ms: float) -> dict[str, Any]:
        return {"known": {"rate": rate, "p99_ms": p99_ms}, "constant": {"rate": constant, "p99_ms": 1.0}}

    turns = [turn(3000, 4000, 20), turn(700, 1000, 90), turn(100, 1000, 29)]
    latency, throughput = api.rows_of("known", turns, clients=100)
    assert (latency["measured"], latency["met"]) == ("29 ms (20 to 90)", True)
    assert throughput["measured"].startswith("0.7 (0.1 to 0.75)")
    assert throughput["met"]


def test_a_missed_number_is_called_missed() -> None:
    row = {"what": "speed", "at_least": "4", "measured": "3 (2 to 4)", "peer": "torchrun", "met": False}
    text = report.table([benchmarked("speed", row)])
    assert "| speed | 4 | **missed:** 3 (2 to 4) | torchrun |" in text


def test_a_benchmark_without_results_has_a_row_that_says_so() -> None:
    row = "The memory that a worker takes at most, measured, against what is predicted before anything starts"
    assert f"| {row} |  | not measured | `python -m benchmarks memory` |" in report.table([], ["memory"])
    others = [benchmarked(name) for name in report.ORDER if name != "memory"]
    assert report.without([*others, benchmarked("framework_memory")]) == ["memory"]
    assert report.without([*others, benchmarked("memory_torch")]) == []


def test_each_benchmark_is_named_with_where_and_when_it_was_measured() -> None:
    text = report.table([benchmarked("speed"), benchmarked("size")])
    assert text.endswith(
        "Measured by `python -m benchmarks`: speed, size (a CPU, 2 cores, 2026-01-02, no commit)."
    )


def test_what_is_of_the_default_configuration_is_of_that_of_its_day() -> None:
    row = {"what": "share", "at_least": "4", "measured": "5", "peer": "the default figures", "met": True}
    assert "| share | 4 | 5 | the default figures of 2026-01-02 |" in report.table(
        [benchmarked("speed", row)]
    )


def test_a_row_says_how_many_times_it_was_measured_unless_its_benchmark_has_said_so() -> None:
    row = {"what": "speed", "at_least": "4", "measured": "5", "peer": "torchrun", "met": True}
    assert "| torchrun; n = 5 sweeps, each with 4 points launched one by one |" in report.table(
        [benchmarked("sweep", row, rounds=[{}] * 5, asked={"points": 4})]
    )
    assert "| n = 7 starts |" in report.table(
        [benchmarked("containers", row | {"peer": ""}, took_s={"docker": {"ours": [1.0] * 7}})]
    )
    assert "| torchrun |" in report.table([benchmarked("speed", row)])


def benchmarked(name: str, *rows: dict[str, Any], **details: object) -> dict[str, Any]:
    return {
        **details,
        "benchmark": name,
        "machine": {"cpu_model": "a CPU", "cores": 2},
        "date": "2026-01-02T03:04",
        "commit": None,
        "rows": rows,
    }


POINT = {
    "framework": "torch", "strategy": "ring_allreduce", "runtime": "bare", "devices": "cpu", "fabric": "emulated",
    "model": "mlp", "dataset": "digits", "image_shape": [28, 28, 1], "batch_size": 64, "workers": 2, "host_count": 2,
    "vcpus": 1, "memory_gb": 1.0, "bandwidth_mbit": 100.0, "latency_ms": 0.0, "loss_percent": 0.0,
    "congestion_control": "cubic", "learning_rate": 0.01, "momentum": 0.0, "epochs": 0, "steps_per_epoch": None,
    "seed": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", report.ORDER)
def test_every_benchmark_of_the_table_is_there_to_be_run(name):
    assert callable(import_module(f"benchmarks.{name}").main)


def test_netpipe_would_report_the_fastest_of_any_three_values() -> None:
    assert probe.fastest_of_three([2.0, 3.0, 1.0]) == 1.0
    values = [3.0, 1.0, 4.0, 1.5, 9.0]
    expected = [min(three) for three in combinations(values, 3)]
    assert probe.fastest_of_three(values) == pytest.approx(sum(expected) / len(expected))


def test_ranks_that_are_late_by_turns_take_no_longer_together() -> None:
    by_turns = [[12.0, 8.0, 12.0, 8.0], [8.0, 12.0, 8.0, 12.0]]
    assert groups.together(by_turns) == [12.0, 8.0, 12.0, 8.0]
    assert sum(groups.together([[1.0, 5.0], [4.0, 1.0]])) == 6.0  # as long as the slowest rank takes for both
