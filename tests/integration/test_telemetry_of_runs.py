"""What is recorded of the hosts of a real run, against what must have happened there."""

import copy
from pathlib import Path

import pandas
import pytest

from ddlbench.telemetry.series import about, read
from tests.support.pipeline import Pipeline
from tests.support.tiny_study import TINY_STUDY

FIGURE = "tiny2000_fig3"
SEGMENT_BYTES, HEADER_BYTES = 1448, 66


def study_with_a_figure_of_telemetry() -> dict:
    """The tiny study, and the packets that each host sends at 100 Mbit/s."""
    study = copy.deepcopy(TINY_STUDY)
    study["figures"][FIGURE] = {
        "kind": "telemetry", "grids": ["bandwidth"], "where": {"bandwidth_mbit": 100}, "title": "Packets sent",
        "x": "time_s", "y": "sent_packets_per_s", "category": "Telemetry", "caption": "The paper sees nothing.",
    }  # fmt: skip
    return study


def parts(pipeline: Pipeline) -> list[Path]:
    return sorted((pipeline.root / "results/telemetry").rglob("*.parquet"))


def test_a_ring_moves_two_n_minus_one_over_n_of_the_model_in_each_step(drawn):
    for record in drawn.records():
        workers, model_bytes = record["point"]["workers"], 4 * record["parameter_count"]
        ring_bytes = 2 * (workers - 1) / workers * model_bytes
        assert set(record["telemetry"]["hosts"]) == {"h1", "h2"}
        hosts = record["telemetry"]["hosts"].values()
        # A busy machine delays acknowledgements, and TCP sends what was not lost again.
        sent_again = SEGMENT_BYTES * sum(counted["tcp_retransmits_per_step"] for counted in hosts)
        for counted in hosts:
            for direction in ("sent", "received"):
                payload = counted[f"{direction}_payload_bytes_per_step"]
                assert 0.95 * ring_bytes < payload < 1.05 * ring_bytes + sent_again
                # In frames of at most SEGMENT_BYTES of it, and as many acknowledgements as TCP likes.
                packets = counted[f"{direction}_packets_per_step"]
                assert packets * SEGMENT_BYTES >= payload
                assert counted[f"{direction}_bytes_per_step"] == pytest.approx(
                    payload + HEADER_BYTES * packets
                )


def test_what_one_host_sends_the_other_receives(drawn):
    for record in drawn.records():
        one, other = record["telemetry"]["hosts"].values()
        assert one["sent_packets_per_step"] == pytest.approx(other["received_packets_per_step"], rel=0.02)


def test_all_hosts_are_sampled_in_one_pass_on_one_clock(drawn):
    samples = read(parts(drawn)).drop_duplicates(["pass", "host"])
    passes = samples.groupby("pass")["time_s"]
    assert len(passes) > 1
    assert (samples.groupby("pass")["host"].nunique() == 2).all()
    # However late a pass is, it is over before the next begins.
    assert (passes.max()[:-1].to_numpy() < passes.min()[1:].to_numpy()).all()


def test_the_timed_steps_of_each_record_are_a_window_of_its_telemetry(drawn):
    for record in drawn.records():
        window = record["telemetry"]
        samples = read([drawn.root / part["path"] for part in window["files"]])
        timed = samples[samples["point"].notna()]
        assert set(timed["repetition"]) == {record["repetition"]}
        assert timed["time_s"].min() == window["begin_s"]
        assert timed["pass"].max() > timed["pass"].min()
        assert window["end_s"] <= timed["time_s"].max()
        steps_s = sum(map(max, zip(*record["step_times_ms"], strict=True))) / 1000 / record["dilation"]
        assert window["end_s"] - window["begin_s"] > 0.9 * steps_s


def test_what_sampling_has_cost_is_written_down(drawn):
    last = about(parts(drawn)[-1])
    assert last["sampler_cpu_s"] > 0
    assert last["dilation"] == drawn.records()[0]["dilation"]


def test_a_figure_of_telemetry_is_drawn_from_what_was_measured(drawn_copy):
    drawn_copy.configure(study=study_with_a_figure_of_telemetry())
    before = drawn_copy.measurements()
    drawn_copy.run(FIGURE)
    assert drawn_copy.measurements() == before
    rows = pandas.read_csv(drawn_copy.root / f"results/figures/{FIGURE}.csv")
    sent = rows.groupby("series")["sent_packets_per_s"]
    assert set(sent.groups) == {"worker 1", "worker 2"}
    assert (sent.min() >= 0).all()  # between two samples a busy machine may not get to any step
    assert (sent.max() > 0).all()
    svg = f"results/figures/{FIGURE}.svg"
    assert "results/telemetry/tiny2000/" in drawn_copy.ddlbench("trace", svg).stdout
    assert drawn_copy.ddlbench("verify", svg).stdout.endswith("all match\n")
    (rows_of,) = (drawn_copy.root / part["path"] for part in last_record(drawn_copy)["telemetry"]["files"])
    rows_of.unlink()
    assert "is missing" in drawn_copy.ddlbench("verify", svg).stdout


def last_record(pipeline: Pipeline) -> dict:
    slow = [record for record in pipeline.records() if record["point"]["bandwidth_mbit"] == 100]
    return max(slow, key=lambda record: record["repetition"])


@pytest.mark.long
def test_without_telemetry_everything_is_measured_and_its_figure_says_what_is_missing(prepared):
    study = study_with_a_figure_of_telemetry()
    study["grids"]["bandwidth"]["bandwidth_mbit"] = [100]
    prepared.configure({"telemetry": {"enabled": False, "hertz": 10}}, study)
    prepared.run(FIGURE)
    records = prepared.records()
    assert [record["status"] for record in records] == ["measured"] * 2
    assert [record["telemetry"] for record in records] == [None] * 2
    assert parts(prepared) == []
    assert "enabled: false" in (prepared.root / f"results/figures/{FIGURE}.svg").read_text()
    assert prepared.ddlbench("verify").returncode == 0
