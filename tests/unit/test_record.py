"""The measurement record: its checksum, and what is derived from it."""

import json
import math

import pytest

from ddlbench.files import canonical_json
from ddlbench.measurements.metrics import METRICS, estimate
from ddlbench.measurements.record import (
    DamagedRecord,
    epochs,
    parse,
    seal,
    step_time_ms,
    timed,
    words,
)
from ddlbench.measurements.statistics import Total
from ddlbench.plan import load
from ddlbench.plan import words as planned_words
from tests.support.measurement_samples import POINT, a_point, a_record
from tests.support.repository import REPOSITORY


def text_of(**values):
    return json.dumps(seal(a_record(**values)))


def test_a_sealed_record_reads_back_as_it_was():
    assert parse(text_of(), "file") == seal(a_record())


def test_sealing_twice_changes_nothing():
    assert seal(seal(a_record())) == seal(a_record())


def test_any_changed_character_of_a_measurement_is_noticed():
    text = canonical_json(seal(a_record()))
    for position, character in enumerate(text):
        other = "8" if character == "7" else "7"
        assert _is_damaged(text[:position] + other + text[position + 1 :]), (position, character)


def _is_damaged(text):
    with pytest.raises(DamagedRecord) as damage:
        parse(text, "results/store/x.json")
    return str(damage.value).startswith("results/store/x.json: damaged: ")


@pytest.mark.parametrize(
    "text", [b"", b"\xff\xfe", b"[]", b"{}", b'{"a": NaN}', b"null", text_of().encode()[:-40]]
)
def test_half_a_file_is_no_measurement(text):
    assert _is_damaged(text)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"schema": 2}, "schema"),
        ({"point": None}, "'point'"),
        ({"status": "lost"}, "status"),
        ({"step_times_ms": []}, "step times"),
        ({"step_times_ms": [[1.0], [1.0, 2.0]]}, "step times"),
        ({"dilation": 0}, "dilation"),
    ],
)
def test_a_record_that_is_whole_but_wrong_says_what_is_wrong(values, what):
    with pytest.raises(DamagedRecord, match=what):
        parse(text_of(**values), "file")


def test_a_point_that_does_not_fit_needs_no_step_times():
    record = parse(
        text_of(status="does_not_fit", reason="too large", step_times_ms=[], metrics={}, link=None), "file"
    )
    assert all(
        estimate(metric, [record], {"epoch_steps": 1, "epochs": 1}) is None for metric in METRICS.values()
    )


def test_a_diverged_loss_is_kept_as_not_measured():
    assert seal(a_record(metrics={"train_loss": math.nan, "test_loss": math.inf}))["metrics"] == {
        "train_loss": None,
        "test_loss": None,
    }


def test_steps_take_as_long_as_the_slowest_rank_takes_for_all_of_them():
    assert step_time_ms(a_record()) == (10 + 20) / 2
    in_turn_late = [[12.0, 8.0, 12.0, 8.0], [8.0, 12.0, 8.0, 12.0]]  # 40 ms have passed, not 48
    assert step_time_ms(a_record(step_times_ms=in_turn_late)) == 10


def test_dilated_time_is_divided_by_the_factor():
    assert step_time_ms(a_record(dilation=2.5)) == 15 / 2.5


def value_of(metric, report, *records):
    found = estimate(METRICS[metric], records or [a_record()], report)
    return None if found is None else found.value


def test_images_per_second_counts_the_global_batch():
    assert value_of("images_per_second", {}) == pytest.approx(128 / 0.015)


def test_an_epoch_is_what_the_report_says():
    assert value_of("epoch_time_s", {"epoch_steps": 70}) == pytest.approx(0.015 * 70)
    assert value_of("epoch_time_s", {"epoch_images": 60000}) == pytest.approx(0.015 * 60000 / 128)
    assert value_of("training_time_s", {"epoch_steps": 70, "epochs": 10}) == pytest.approx(0.015 * 70 * 10)
    assert value_of("training_time_s", {}) is None


def test_a_repetition_counts_by_its_steps():
    one_slow_step = a_record(step_times_ms=[[80.0]])
    twenty = a_record(step_times_ms=[[10.0] * 20])
    assert timed(twenty) == Total(200.0, 20)
    assert value_of("step_time_ms", {}, one_slow_step, twenty) == pytest.approx(280 / 21)


def test_each_step_counts_where_the_link_loses_packets_in_undilated_time():
    times = [[20.0, 380.0], [18.0, 390.0]]  # at k = 2
    lossy = a_record(step_times_ms=times, dilation=2.0, link={"is_lossy": True})
    assert timed(lossy) == Total(204.0, 2, (9.0, 195.0))
    assert timed(lossy | {"link": {"is_lossy": False}}) == timed(lossy | {"link": None}) == Total(204.0, 2)


def test_more_time_for_a_step_is_fewer_images_a_second():
    records = [a_record(n, step_times_ms=[[10.0 + n]]) for n in range(6)]
    time, rate = (estimate(METRICS[name], records, {}) for name in ("step_time_ms", "images_per_second"))
    assert (rate.low, rate.high) == pytest.approx((128_000 / time.high, 128_000 / time.low))
    assert rate.low < rate.value < rate.high


def test_dropped_warmup_steps_shorten_the_first_epoch_only():
    record = a_record(
        point=a_point(epochs=3, steps_per_epoch=2), step_times_ms=[[1.0, 2.0, 3.0, 4.0, 5.0]] * 2
    )
    assert [part["step_times_ms"][0] for _, part in epochs(record)] == [[1.0], [2.0, 3.0], [4.0, 5.0]]
    assert [part["metrics"]["test_loss"] for _, part in epochs(record)] == [None, None, 0.6]


def test_words_of_a_point_are_for_people():
    assert words(POINT) == "mlp, digits, batch 128, 2 workers, 400 Mbit/s, 0 ms, 0 % loss"
    alone = a_point(workers=1, bandwidth_mbit=None, latency_ms=None, loss_percent=None)
    assert words(alone) == "mlp, digits, batch 128, 1 worker"
    other = alone | {"framework": "mxnet", "strategy": "parameter_server_sync", "replay": {"device": "v100"}}
    assert words(other) == "mlp, digits, batch 128, 1 worker, mxnet, parameter server sync, v100 replayed"
    shared = a_point(workers=8, workers_per_host=4, uneven={"name": "host 2 twice as slow"})
    said = "mlp, digits, batch 128, 8 workers, 4 a host, 400 Mbit/s, 0 ms, 0 % loss, host 2 twice as slow"
    assert words(shared) == said


def test_a_recorded_point_is_said_in_the_plans_words():
    plan = load(REPOSITORY / "config/config.yaml", REPOSITORY)
    points = {point for run in plan.runs for point in run.points}
    assert {words(point.as_dict()) for point in points if point.fabric == "loopback"}
    assert [words(point.as_dict()) for point in points] == [planned_words(point) for point in points]
