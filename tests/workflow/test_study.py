"""A study from its configuration to a traceable figure, really measured, and what a second start does then."""

import copy
import csv
import re
from statistics import mean

import pytest

from ddlbench.runs.invocation import STAMPS, stamp
from tests.support.repository import dry_run
from tests.support.tiny_study import TINY_STUDY

FIGURE = "results/figures/tiny2000_fig1"


def test_a_figure_is_there_in_every_format_with_what_it_was_drawn_from(drawn):
    for ending, beginning in (
        (".svg", b"<?xml"),
        (".pdf", b"%PDF"),
        (".png", b"\x89PNG"),
        (".csv", b"study,"),
    ):
        assert (drawn.root / f"{FIGURE}{ending}").read_bytes().startswith(beginning)
    assert (drawn.root / f"{FIGURE}.svg.prov.json").exists()
    with open(drawn.root / f"{FIGURE}.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["bandwidth_mbit"]) for row in rows] == [100, 200]
    for row in rows:
        assert float(row["step_time_ms_low"]) <= float(row["step_time_ms"]) <= float(row["step_time_ms_high"])
        assert row["repetitions"] == "2"
        assert float(row["dilation"]) >= 1


def test_no_step_is_shorter_than_its_link_takes_for_the_gradients(drawn):
    # Two workers exchange all 109,386 parameters, 4 bytes each: 35 ms at 100 Mbit/s, less the burst of a link that was
    # idle, whatever else a step takes. The worker that begins first waits for all of it.
    for record in drawn.records():
        bandwidth_mbit = record["point"]["bandwidth_mbit"]
        assert max(map(mean, record["step_times_ms"])) > 3000 / bandwidth_mbit


def test_what_is_recorded_of_a_measurement_is_complete(drawn):
    for record in drawn.records():
        assert record["status"] == "measured"
        assert record["parameters_identical"] is True
        assert record["parameter_count"] == 109_386
        assert len(set(record["parameters_sha256"])) == 1
        assert record["link"]["asked"]["bandwidth_mbit"] == record["point"]["bandwidth_mbit"]
        assert record["link"]["measured"]["rate_mbit"] > 0
        assert record["link"]["congestion_control"] == "cubic"
        assert record["link"]["backend"] in ("tbf+nfqueue", "tbf+netem")
        assert record["provenance"].keys() >= {"dataset", "environment", "code", "hosts", "fabric"}
        assert len(record["provenance"]["hosts"]) == 2


def test_a_figure_by_its_name_makes_only_what_it_needs(drawn):
    assert {record["point"]["latency_ms"] for record in drawn.records()} == {0}
    assert [file.name for file in (drawn.root / "results/tables").glob("*.csv")] == ["tiny2000_fig1.csv"]
    assert {file.stem.split(".")[0] for file in (drawn.root / "results/figures").iterdir()} == {
        "tiny2000_fig1"
    }
    assert {file.name.split("-")[1] for file in (drawn.root / "results/runs").rglob("*.json")} == {
        "bandwidth"
    }


def test_a_second_start_has_nothing_to_do(drawn):
    assert "Nothing to be done" in drawn.run("tiny2000_fig1")


def test_the_report_has_a_caption_with_how_it_was_measured(drawn):
    answer = drawn.attempt("tiny2000_fig1", "--report", "report.html")
    assert answer.returncode == 0, answer.stderr
    report = (drawn.root / "report.html").read_text()
    for fact in (
        "2 of 2 points measured",
        "2 repetitions",
        "Time dilation",
        "Emulated hosts and network, on ",
        "cubic",
        "The paper sees nothing.",
        "Links",  # the category
        "Step time by bandwidth",  # a label
    ):
        assert fact in report


def test_trace_leads_from_a_figure_to_data_environment_code_and_host(drawn):
    answer = drawn.ddlbench("trace", f"{FIGURE}.svg")
    assert answer.returncode == 0, answer.stderr
    record = drawn.records()[0]
    for leaf in (
        "results/tables/tiny2000_fig1.csv",
        drawn.manifest("bandwidth"),
        *(f"results/store/{name}" for name in drawn.measurements()),
        "mlp, digits, batch 32, 2 workers, 100 Mbit/s",
        record["provenance"]["dataset"]["sha256"][:12],
        record["provenance"]["environment"]["sha256"][:12],
        "code ddlbench ",
        record["provenance"]["hosts"][0]["hostname"],
    ):
        assert leaf in answer.stdout, answer.stdout


def test_verify_finds_everything_as_it_was(drawn):
    answer = drawn.ddlbench("verify", f"{FIGURE}.svg")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.endswith("all match\n")


def test_verify_names_the_measurement_of_which_one_byte_was_changed(drawn_copy):
    name, content = max(drawn_copy.measurements().items())
    place = content.index(b'"step_times_ms":[[') + 20
    changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    (drawn_copy.root / "results/store" / name).write_bytes(changed)
    answer = drawn_copy.ddlbench("verify", f"{FIGURE}.svg")
    assert answer.returncode == 1
    assert f"results/store/{name}: " in answer.stdout
    assert re.search(r"1 does not match$", answer.stdout.strip())


@pytest.mark.parametrize(
    ("module", "rules"),
    [
        ("figures/theme.py", {"tiny2000_fig1"}),
        ("measurements/statistics.py", {"table", "tiny2000_fig1"}),
        ("network/shaping.py", {"measure", "table", "tiny2000_fig1"}),
        ("network/link.py", {"measure", "table", "tiny2000_fig1"}),
        ("cli/main.py", set()),
    ],
)
def test_changed_code_makes_again_what_it_decides_and_nothing_else(drawn_copy, module, rules):
    with open(drawn_copy.root / "src/ddlbench" / module, "a") as file:
        file.write("CHANGED = 1\n")
    assert dry_run(drawn_copy.root, "tiny2000_fig1").keys() == rules


def test_rewording_makes_nothing_again_and_still_matches(drawn_copy):
    for module in (drawn_copy.root / "src/ddlbench").rglob("*.py"):
        module.write_text(f'"""Other words."""\n\n# A comment.\n{module.read_text()}')
    assert dry_run(drawn_copy.root, "tiny2000_fig1") == {}
    answer = drawn_copy.ddlbench("verify", f"{FIGURE}.svg")
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_a_figure_is_drawn_again_without_measuring(drawn_copy):
    for file in (drawn_copy.root / "results").glob("*/tiny2000_fig1.*"):
        file.unlink()
    before = drawn_copy.measurements()
    drawn_copy.run("tiny2000_fig1")
    assert drawn_copy.measurements() == before
    assert (drawn_copy.root / f"{FIGURE}.svg").exists()


def test_a_larger_grid_measures_its_new_points_only(drawn_copy):
    before = drawn_copy.measurements()
    study = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"]["bandwidth_mbit"] = [100, 150, 200]
    drawn_copy.configure(study=study)
    drawn_copy.run("tiny2000_fig1")
    after = drawn_copy.measurements()
    assert before.items() <= after.items()
    new = [record for record in drawn_copy.records() if record["point"]["bandwidth_mbit"] == 150]
    assert len(after) - len(before) == len(new) == 2
    with open(drawn_copy.root / f"{FIGURE}.csv") as file:
        assert [float(row["bandwidth_mbit"]) for row in csv.DictReader(file)] == [100, 150, 200]


def test_times_are_extrapolated_to_other_epochs_without_measuring(drawn_copy):
    before = drawn_copy.measurements()
    study = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"]["report"]["epochs"] = 20
    drawn_copy.configure(study=study)
    drawn_copy.run("tiny2000_fig1")
    assert drawn_copy.measurements() == before
    with open(drawn_copy.root / "results/tables/tiny2000_fig1.csv") as file:
        assert {row["reported_epochs"] for row in csv.DictReader(file)} == {"20"}


@pytest.mark.long
def test_fresh_measures_again_and_keeps_the_old_measurements(drawn_copy):
    before = drawn_copy.measurements()
    drawn_copy.run("tiny2000_fig1", "--config", "fresh=true")
    after = drawn_copy.measurements()
    assert before.items() <= after.items()
    assert len(after) == 2 * len(before)
    manifest = (drawn_copy.root / drawn_copy.manifest("bandwidth")).read_text()
    assert not any(name in manifest for name in before)
    assert dry_run(drawn_copy.root, "tiny2000_fig1") == {}


@pytest.mark.long
def test_measuring_afresh_that_ended_before_a_run_began_is_made_up_for_by_the_next_start(drawn_copy):
    before, results = drawn_copy.measurements(), drawn_copy.root / "results"
    stamp([drawn_copy.root / drawn_copy.manifest("bandwidth")], results)
    drawn_copy.run("tiny2000_fig1")
    manifest = (drawn_copy.root / drawn_copy.manifest("bandwidth")).read_text()
    assert not any(name in manifest for name in before)
    assert [file for file in (results / STAMPS).rglob("*") if file.is_file()] == []
    assert dry_run(drawn_copy.root, "tiny2000_fig1") == {}
