"""Claims of the papers: reading them, and judging them by tables."""

import pandas as pd
import pytest

from ddlbench.claims.claim import read_claims
from ddlbench.claims.judge import OWN_ERROR, judge
from ddlbench.claims.report import judge_files, verdicts
from ddlbench.claims.screen import by_claim, overview
from ddlbench.errors import ConfigError
from ddlbench.measurements.host_columns import own_error

TEXT = """
faster:
  says: It is faster.
  place: text
  figure: a_fig1
  quantity: time_s
  test: ratio
  settings: [{rate: 2}, {rate: 1}]
  devices: cpu
  paper: 0.5
  tolerance_percent: 10
"""
LEAST = (
    TEXT.replace("ratio", "least")
    .replace("[{rate: 2}, {rate: 1}]", "[{rate: 3}, {rate: 1}, {rate: 2}]")
    .replace("  paper: 0.5\n  tolerance_percent: 10\n", "")
)


def claim(folder, text=TEXT):
    file = folder / "a.yaml"
    file.write_text(text)
    return read_claims(file, folder)[0]


def table(*times, half=0.01, **columns):
    rows = [
        {
            "rate": rate,
            "point_id": f"p{rate}",
            "time_s": t,
            "time_s_low": t * (1 - half),
            "time_s_high": t * (1 + half),
        }
        for rate, t in enumerate(times, 1)
    ]
    shared = {
        "devices": "cpu",
        "fabric": "emulated",
        "framework": "torch",
        "strategy": "ring_allreduce",
        "status": "measured",
        "repetitions": 5,
        "bounds": "interval",
    }
    return {"a_fig1": pd.DataFrame(rows).assign(**(shared | columns))}


@pytest.mark.parametrize(
    ("tables", "verdict"),
    [
        (table(10, 5), "replicated"),
        (table(10, 9), "contradicted"),
        (table(10, 5, half=0.2), "undecided"),
        (table(10, 5, repetitions=3, bounds="range"), "undecided"),
        (table(10, 5, repetitions=2), "replicated"),
        (table(10), "not reached"),
        (table(10, 5, devices="gpu"), "not reached"),
        (table(10, 5, status="does_not_fit"), "not reached"),
        ({}, "not reached"),
    ],
)
def test_a_ratio_is_judged_by_its_whole_interval(tmp_path, tables, verdict):
    assert judge(claim(tmp_path), tables).verdict == verdict


@pytest.mark.parametrize(
    "error",
    [
        {"systematic_error_percent": 8.0},
        {"vcpu_speedup": 2.0, "vcpu_speedup_low": 1.8, "vcpu_speedup_high": 2.1},
    ],
)
def test_the_emulations_own_error_is_in_the_intervals_of_times_and_of_nothing_else(tmp_path, error):
    for quantity, wider, verdict in (
        ("step_time_ms", own_error(error) ** 2, "undecided"),
        ("train_loss", 1, "replicated"),
    ):
        rows = table(10, 5, **error)["a_fig1"]
        rows.columns = rows.columns.str.replace("time_s", quantity)
        text = TEXT.replace("quantity: time_s", f"quantity: {quantity}")
        found = judge(claim(tmp_path, text), {"a_fig1": rows})
        assert found.verdict == verdict
        assert found.low == pytest.approx(0.5 * 0.99 / 1.01 / wider)


@pytest.mark.parametrize(
    ("times", "verdict"), [((10, 5), "replicated"), ((5, 10), "contradicted"), ((10, 10), "undecided")]
)
def test_an_order_is_judged_by_whether_intervals_overlap(tmp_path, times, verdict):
    text = TEXT.replace("ratio", "order").replace("  paper: 0.5\n  tolerance_percent: 10\n", "")
    assert judge(claim(tmp_path, text), table(*times)).verdict == verdict


@pytest.mark.parametrize("test", ["order", "least"])
@pytest.mark.parametrize(
    ("times", "half", "said"),
    [
        ((10, 10.02), 0.0005, "undecided: as good as equal (within 2 %): p2 and p1"),
        ((10.02, 10), 0.0005, "undecided: as good as equal (within 2 %): p2 and p1"),
        ((10, 10.15), 0.005, "undecided: do not surely differ by 2 %: measure p2 and p1 more often"),
        ((10, 10.5), 0.005, "contradicted: p2 has 10.5, more than 10 of p1"),
    ],
)
def test_a_difference_that_is_certain_and_small_contradicts_nothing(tmp_path, test, times, half, said):
    text = LEAST.replace("least", test).replace("{rate: 3}, {rate: 1}, {rate: 2}", "{rate: 2}, {rate: 1}")
    found = judge(claim(tmp_path, text), table(*times, half=half))
    assert f"{found.verdict}: {found.reason}" == said


def test_an_order_may_have_a_tolerance_of_its_own(tmp_path):
    text = LEAST.replace("[{rate: 3}, {rate: 1}, {rate: 2}]", "[{rate: 2}, {rate: 1}]")
    times = table(99.6, 99, half=0.0001)
    assert judge(claim(tmp_path, text), times).verdict == "undecided"
    assert judge(claim(tmp_path, text + "  tolerance_percent: 0.2\n"), times).verdict == "replicated"


@pytest.mark.parametrize(
    ("times", "verdict"),
    [((10, 12, 4), "replicated"), ((10, 3, 4), "contradicted"), ((10, 12, 10), "undecided")],
)
def test_the_least_is_less_than_each_other_one(tmp_path, times, verdict):
    assert judge(claim(tmp_path, LEAST), table(*times)).verdict == verdict


def test_a_replayed_device_judges_only_a_claim_that_allows_it(tmp_path):
    tables = table(10, 5, compute="replay", replay="v100")
    assert judge(claim(tmp_path), tables).reason == "the claim is about cpu, measured was replayed"
    found = judge(claim(tmp_path, f"{TEXT}  replayed: true\n"), tables)
    assert found.verdict == "replicated"
    assert found.setup == "emulated, torch, ring_allreduce, v100"


@pytest.mark.parametrize("test", ["order", "least"])
def test_of_an_order_our_value_is_the_ratio_where_it_is_least_clear(tmp_path, test):
    found = judge(claim(tmp_path, LEAST.replace("least", test)), table(10.1, 30, 10))
    assert found.verdict == "undecided"
    assert found.ours == pytest.approx(1.01)
    assert found.low < 1 < found.high


def test_the_first_framework_that_was_measured_in_all_settings_judges(tmp_path):
    chosen = claim(tmp_path, TEXT + "  frameworks: [tensorflow, torch]\n")
    torch = table(10, 5)["a_fig1"]
    tensorflow = table(10, 9, framework="tensorflow")["a_fig1"]
    both = pd.concat([torch, tensorflow])
    assert "must choose one" in judge(claim(tmp_path), {"a_fig1": both}).reason
    assert judge(chosen, {"a_fig1": both}).verdict == "contradicted"
    assert "tensorflow" in judge(chosen, {"a_fig1": both}).setup
    assert judge(chosen, {"a_fig1": pd.concat([torch, tensorflow[:1]])}).verdict == "replicated"
    assert "framework tensorflow" in judge(chosen, {"a_fig1": torch[:1]}).reason


def test_a_point_that_two_grids_have_is_one(tmp_path):
    once = table(10, 5)["a_fig1"].assign(grid="one")
    twice = {"a_fig1": pd.concat([once, once.assign(grid="two")])}
    assert (
        judge(claim(tmp_path), twice).verdict
        == judge(claim(tmp_path), {"a_fig1": once}).verdict
        == "replicated"
    )


def test_nothing_measured_is_less_than_zero(tmp_path):
    text = TEXT.replace("ratio", "order").replace("  paper: 0.5\n  tolerance_percent: 10\n", "")
    assert judge(claim(tmp_path, text), table(5, 0.0)).verdict == "replicated"


def test_what_does_not_fit_into_memory_is_not_the_least(tmp_path):
    tables = table(10, 12, 4)
    tables["a_fig1"].loc[0, "status"] = "does_not_fit"
    assert judge(claim(tmp_path, LEAST), tables).verdict == "replicated"
    tables["a_fig1"].loc[2, "status"] = "does_not_fit"
    assert judge(claim(tmp_path, LEAST), tables).verdict == "not reached"


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("does_not_fit", "replicated"), ("measured", "contradicted"), ("not_available", "not reached")],
)
def test_that_a_setting_fails_is_judged_by_whether_it_fits(tmp_path, status, verdict):
    text = LEAST.replace("least", "fails").replace("[{rate: 3}, {rate: 1}, {rate: 2}]", "[{rate: 1}]")
    assert judge(claim(tmp_path, text), table(10, status=status, reason="too large")).verdict == verdict


def test_what_alone_fits_into_memory_is_the_least(tmp_path):
    tables = table(10, 12, 4, repetitions=1, bounds=None)
    tables["a_fig1"].loc[[0, 1], "status"] = "does_not_fit"
    found = judge(claim(tmp_path, LEAST), tables)
    assert (found.verdict, found.reason) == ("replicated", "only p3 fits into memory")


SHORT = {"memory_gb": 8.0, "host_memory_gb": 1.4, "reason": "does not fit into 1.4 GB (this machine's share)"}


def test_that_this_machine_has_less_memory_than_the_studys_hosts_judges_nothing(tmp_path):
    text = LEAST.replace("least", "fails").replace("[{rate: 3}, {rate: 1}, {rate: 2}]", "[{rate: 1}]")
    short = judge(claim(tmp_path, text), table(10, status="does_not_fit", **SHORT))
    assert short.verdict == "not reached"
    assert short.reason == "p1: does not fit into 1.4 GB (this machine's share)"
    whole = table(10, status="does_not_fit", **SHORT | {"memory_gb": 15.75, "host_memory_gb": 15.8})
    assert judge(claim(tmp_path, text), whole).verdict == "replicated"
    tables = table(10, 12, 4, **SHORT)
    tables["a_fig1"].loc[0, "status"] = "does_not_fit"
    assert judge(claim(tmp_path, LEAST), tables).verdict == "not reached"


def test_an_undecided_claim_names_the_points_to_measure(tmp_path):
    assert "p2, p1" in judge(claim(tmp_path), table(10, 5, half=0.2)).reason


@pytest.mark.parametrize(
    ("text", "half", "ours", "said"),
    [
        (TEXT, 0.01, 5, f"measured: {OWN_ERROR}"),
        (TEXT, 0.05, 3.7, "measured: measure p2, p1 more often"),
        (LEAST, 0.01, 9, f"do not surely differ by 2 %: {OWN_ERROR} for p2 and p1"),
        (LEAST, 0.1, 7, "do not surely differ by 2 %: measure p2 and p1 more often"),
    ],
)
def test_it_is_said_where_no_number_of_repetitions_can_decide(tmp_path, text, half, ours, said):
    text = text.replace("time_s", "step_time_ms").replace(
        "[{rate: 3}, {rate: 1}, {rate: 2}]", "[{rate: 2}, {rate: 1}]"
    )
    rows = table(10, ours, half=half, systematic_error_percent=8.0)["a_fig1"]
    rows.columns = rows.columns.str.replace("time_s", "step_time_ms")
    found = judge(claim(tmp_path, text), {"a_fig1": rows})
    assert found.verdict == "undecided"
    assert found.reason.endswith(said)


def test_what_no_measurement_can_judge_is_not_reached_for_the_reason_that_the_claim_says(tmp_path):
    text = "no_way:\n  says: It is so.\n  place: text\n  not_reached: nobody measures it\n"
    found = judge(claim(tmp_path, text), {})
    assert (found.verdict, found.reason) == ("not reached", "nobody measures it")
    with pytest.raises(ConfigError, match="no_way: has figure, but not_reached: nothing judges it"):
        claim(tmp_path, text + "  figure: a_fig1\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  place: text\n", "", "lacks place"),
        ("place: text", "place: 3", "place is 3, expected a text"),
        ("test: ratio", "test: ratoi", "test is 'ratoi', expected one of ratio, order, least, value, fails"),
        ("quantity:", "quantty:", "did you mean 'quantity'"),
        ("devices: cpu", "devices: cpu\n  replayed: v100", "replayed is 'v100', expected true or false"),
        ("paper: 0.5", "paper: half", "paper is 'half', expected a number above 0"),
        (", {rate: 1}", "", "has 1 settings, expected 2 for test ratio"),
    ],
)
def test_a_wrong_claim_is_refused_with_its_name_and_key(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=rf"a.yaml: faster: .*{message}"):
        claim(tmp_path, TEXT.replace(old, new))


def test_all_verdicts_are_counted_and_each_is_shown_with_its_reason(tmp_path):
    file, measured = tmp_path / "a.yaml", tmp_path / "a_fig1.csv"
    file.write_text(TEXT + LEAST.replace("faster:", "least:").replace("a_fig1", "b_fig1").lstrip("\n"))
    table(10, 5)["a_fig1"].to_csv(measured)
    found = verdicts([file], [measured])
    assert next(overview(found)).endswith(": 1 replicated, 0 contradicted, 0 undecided, 1 not reached")
    shown = "\n".join(by_claim(found))
    assert "ours 0.5 [0.49, 0.51]: 0.5 +- 10 % asked" in shown
    assert "not measured; to measure it:  snakemake --cores 4 b_fig1" in shown
    csv, options = tmp_path / "claims.csv", "--configfile mine.yaml"
    judge_files([file], [measured], csv, tmp_path / "claims.md", options)
    assert list(pd.read_csv(csv)["verdict"]) == ["replicated", "not reached"]
    assert pd.read_csv(csv)["reason"][1].endswith(f"snakemake --cores 4 b_fig1 {options}")
