"""Tables: a row a point, gaps included, from exactly the measurements that the manifests list."""

import math

import pandas
import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.measurements.metrics import METRICS
from ddlbench.measurements.store import Store
from ddlbench.measurements.tables import aggregate, write_table
from tests.support.measurement_samples import (
    MEASURE,
    a_point,
    a_record,
    a_replay,
    a_repository,
    an_entry,
    manifest_of,
    row_of,
    times_of_repetitions,
    write_manifest,
)


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    a_repository(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results/runs/zhao2016/run1.json"


def test_a_point_is_a_row_with_medians_and_intervals(tmp_path):
    records = [a_record(n, step_times_ms=[[time], [1.0]]) for n, time in enumerate([10.0, 12.0, 11.0], 1)]
    (row,) = aggregate([manifest_of(tmp_path, *records)]).to_dict("records")
    assert (row["step_time_ms"], row["step_time_ms_low"], row["step_time_ms_high"]) == (11, 10, 12)
    assert (row["repetitions"], row["steps"], row["dilation"], row["backend"]) == (3, 3, 1, "netem")
    assert (row["study"], row["grid"], row["image_shape"]) == ("zhao2016", "standalone_bandwidth", "28x28x1")
    assert row["training_time_s"] == pytest.approx(0.011 * 60000 / 128 * 10)
    assert row["link_rate_mbit"] == 381.5


def test_every_metric_has_its_interval_beside_it(manifest):
    columns = list(aggregate([manifest]).columns)
    for metric in METRICS:
        at = columns.index(metric)
        assert columns[at : at + 3] == [metric, f"{metric}_low", f"{metric}_high"]


def test_what_could_not_be_measured_is_a_visible_gap(manifest):
    table = aggregate([manifest])
    (gap,) = table[table["status"] != "measured"].to_dict("records")
    assert (gap["status"], gap["reason"], gap["repetitions"]) == ("not_available", "no GPU here", 0)
    assert all(pandas.isna(gap[metric]) for metric in METRICS)


def test_a_batch_that_does_not_fit_has_no_invented_time(tmp_path):
    tried = a_record(status="does_not_fit", reason="needs 9 GB, the host has 8", step_times_ms=[], metrics={})
    path = Store(tmp_path / "results/store").add(tried)
    (tmp_path / "Snakefile").touch()
    entry = an_entry(
        a_point(), [str(path.relative_to(tmp_path))], status="does_not_fit", reason=tried["reason"]
    )
    (row,) = aggregate([write_manifest(tmp_path / "results/runs/r.json", [entry])]).to_dict("records")
    assert (row["repetitions"], row["steps"]) == (0, 0)
    assert pandas.isna(row["step_time_ms"])


def test_a_point_is_resolved_where_its_interval_is_as_narrow_as_asked_for(tmp_path):
    records = times_of_repetitions(10.0, 11.0, 12.0, 13.0, 14.0)
    assert not row_of(tmp_path / "narrow", records)["resolved"]
    assert row_of(tmp_path / "wide", records, {**MEASURE, "interval_percent": 25})["resolved"]
    few = times_of_repetitions(10.0, 11.0, 12.0, 13.0, 14.0, link={"is_lossy": True})
    many = [each | {"step_times_ms": [each["step_times_ms"][0] * 100]} for each in few]
    rule = {**MEASURE, "lossy_interval_percent": 25}
    assert not row_of(tmp_path / "few", few, rule)["resolved"]  # they may have met no time-out by luck
    assert row_of(tmp_path / "many", many, rule)["resolved"]


def test_few_repetitions_have_a_range_and_are_never_resolved(tmp_path):
    row = row_of(tmp_path / "few", times_of_repetitions(10.0, 10.0, 10.1))
    assert (row["bounds"], row["resolved"], row["launches"]) == ("range", False, 3)
    assert (row["step_time_ms_low"], row["step_time_ms_high"]) == (10.0, 10.1)
    enough = row_of(tmp_path / "enough", times_of_repetitions(10.0, 10.0, 10.1, 10.0, 10.1))
    assert (enough["bounds"], enough["resolved"]) == ("interval", True)


def test_where_the_number_of_repetitions_is_fixed_an_interval_says_whether_they_resolve_a_time(tmp_path):
    waits, burns = (
        times_of_repetitions(10.0, point=a_point(replay=a_replay(kind))) for kind in ("gpu", "cpu")
    )
    assert row_of(tmp_path / "waits", waits)["resolved"] is None
    assert row_of(tmp_path / "burns", burns)["resolved"] is False
    rows = [
        row_of(tmp_path / name, times_of_repetitions(*times_ms, point=point))["resolved"]
        for name, times_ms, point in (
            ("narrow replay", (10.0, 10.01), a_point(replay=a_replay("gpu"))),
            ("narrow training", (10.0, 10.1, 10.2), a_point(epochs=2)),
            ("wide training", (10.0, 15.0, 20.0), a_point(epochs=2)),
        )
    ]
    assert rows == [True, True, False]


def test_of_a_fixed_number_two_repetitions_have_an_interval_but_on_a_link_that_loses_packets(tmp_path):
    of_k80, of_training = a_point(replay=a_replay("gpu")), a_point(epochs=1)
    assert bounds_of(tmp_path / "replays", point=of_k80) == "interval"
    assert bounds_of(tmp_path / "trainings", point=of_training) == "interval"
    assert bounds_of(tmp_path / "others") == "range"
    assert bounds_of(tmp_path / "lossy", point=of_k80, link={"is_lossy": True}) == "range"


def test_repetitions_that_diverged_are_counted(tmp_path):
    losses = ({"train_loss": 2.0, "test_loss": None}, {"train_loss": math.nan, "test_loss": None})
    records = [a_record(number, metrics=values) for number, values in enumerate((*losses, losses[0]))]
    row = row_of(tmp_path / "diverged", records)
    assert (row["repetitions"], row["diverged"], row["train_loss"]) == (3, 1, 2.0)
    all_of_them = [a_record(metrics={"test_loss": math.nan, "test_accuracy_percent": 10.0})]
    assert row_of(tmp_path / "all", all_of_them)["diverged"] == 1
    assert row_of(tmp_path / "no loss", times_of_repetitions(10.0))["diverged"] == 0


def test_a_repetition_that_stalled_counts_with_its_time_and_is_counted(tmp_path):
    stalled = {"stalled_s": 0.1, "step_times_ms": [[10.0, 100.0]] * 2}
    records = [a_record(0, step_times_ms=[[10.0] * 4] * 2), a_record(1, **stalled)]
    row = row_of(tmp_path / "stalled", records)
    assert (row["repetitions"], row["stalled"], row["stalled_at_once"], row["steps"]) == (2, 1, 0, 6)
    assert row["step_time_ms"] == pytest.approx(150 / 6)


def bounds_of(folder, **values):
    return row_of(folder, times_of_repetitions(10.0, 10.1, **values))["bounds"]


def _traffic(sent_bytes):
    return {"sent_bytes_per_step": sent_bytes, "received_bytes_per_step": 0.0}


def test_bytes_of_a_step_are_all_bytes_by_all_steps(tmp_path):
    sent = {"a": (100.0, 40.0), "b": (70.0, 50.0)}
    records = [
        a_record(
            number,
            step_times_ms=[[1.0] * steps],
            telemetry={"hosts": {host: _traffic(each[number]) for host, each in sent.items()}},
        )
        for number, steps in enumerate((1, 3))
    ]
    row = row_of(tmp_path / "sent", records)
    assert row["sent_bytes_per_step"] == (100 + 3 * 50) / 4  # of the busiest host
    assert (row["sent_bytes_per_step_low"], row["sent_bytes_per_step_high"]) == (50, 100)
    assert row["received_bytes_per_step"] == 0


def test_a_grid_per_epoch_has_a_row_an_epoch(tmp_path):
    record = a_record(
        point=a_point(epochs=2, steps_per_epoch=2),
        step_times_ms=[[1.0, 3.0, 5.0, 7.0]],
        telemetry={"hosts": {"h1": _traffic(100.0)}},
    )
    table = aggregate([manifest_of(tmp_path, record, per_epoch=True)])
    assert table["sent_bytes_per_step"].isna().all()  # they were counted over all epochs
    assert list(table["epoch"]) == [1, 2]
    assert list(table["step_time_ms"]) == [2, 6]
    assert list(table["test_loss"].isna()) == [True, False]


def test_whole_numbers_stay_whole_in_the_file(tmp_path):
    record = a_record(point=a_point(steps_per_epoch=None))
    other = a_record(point=a_point(steps_per_epoch=7))
    store = Store(tmp_path / "results/store")
    (tmp_path / "Snakefile").touch()
    entries = [an_entry(r["point"], [str(store.add(r).relative_to(tmp_path))]) for r in (record, other)]
    write_table(aggregate([write_manifest(tmp_path / "results/runs/r.json", entries)]), tmp_path / "t.csv")
    assert set(pandas.read_csv(tmp_path / "t.csv", dtype=str)["steps_per_epoch"].dropna()) == {"7"}


def test_the_table_does_not_depend_on_the_order_of_the_manifests(tmp_path, manifest):
    other = manifest.with_name("run2.json")
    other.write_text(manifest.read_text().replace('"batch_size": 128', '"batch_size": 64'))
    write_table(aggregate([manifest, other]), tmp_path / "a.csv")
    write_table(aggregate([other, manifest]), tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_the_file_holds_what_was_aggregated(tmp_path, manifest):
    table = aggregate([manifest])
    write_table(table, tmp_path / "t.csv")
    read = pandas.read_csv(tmp_path / "t.csv")
    assert list(read.columns) == list(table.columns)
    assert list(read["images_per_second"].dropna()) == pytest.approx(
        list(table["images_per_second"].dropna()), rel=1e-5
    )


@pytest.mark.parametrize("harm", ["change", "remove"])
def test_a_damaged_or_missing_measurement_is_an_error_that_names_it_and_says_what_to_do(
    tmp_path, manifest, harm
):
    victim = min((tmp_path / "results/store").rglob("*.json"))
    if harm == "change":
        victim.write_bytes(victim.read_bytes().replace(b"20.0", b"20.5"))
    else:
        victim.unlink()
    with pytest.raises(DdlbenchError) as error:
        aggregate([manifest])
    assert str(error.value).startswith(str(victim.relative_to(tmp_path)))
    assert f"rm {manifest}" in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"study": "a"'])
def test_a_damaged_manifest_is_an_error_that_names_it(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(DdlbenchError, match=r"run\.json: this manifest cannot be read"):
        aggregate([tmp_path / "run.json"])


def test_a_table_of_nothing_is_an_error():
    with pytest.raises(DdlbenchError, match="no point"):
        aggregate([])
