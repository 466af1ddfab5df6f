"""Predictions of replayed compute, which is known, and of bytes that pass meanwhile."""

import sqlite3
from dataclasses import replace

import pytest
from prediction_samples import cell, measure

from ddlbench.prediction.cell import Measured
from ddlbench.prediction.estimate import estimates
from ddlbench.prediction.measured import from_tables
from ddlbench.prediction.predictor import learn
from ddlbench.prediction.replayed import replayed
from ddlbench.prediction.terms import terms
from ddlbench.recommender.database import Database
from ddlbench.recommender.sources import find_sources

K80 = {"devices": "K80, fp32", "model": "resnet50", "image_shape": "224x224x3"}


def of_k80(images, workers, time_ms, replayed_ms=None, **changes):
    found = cell(batch_size=images * workers, workers=workers, **(K80 | changes))
    return Measured(found, time_ms, replayed_ms=replayed_ms)


@pytest.mark.parametrize(
    ("images", "compute_ms"), [(16, 330.0), (32, 660.0), (48, 975.0), (64, 1290.0), (128, 2580.0)]
)
def test_replayed_compute_is_interpolated_between_batches_and_in_proportion_beyond(images, compute_ms):
    known = replayed([of_k80(32, 1, 661, 660.0), of_k80(64, 2, 1300, 1290.0), of_k80(32, 2, 700, 660.0)])
    assert known.compute_ms(of_k80(images, 3, 0).cell) == pytest.approx(compute_ms)


def test_another_model_on_a_replayed_device_takes_time_by_its_multiplications():
    known = replayed([of_k80(32, 1, 661, 660.0)])
    found = known.compute_ms(of_k80(32, 1, 0, model="vgg16").cell)
    assert found == pytest.approx(660 * 15.47 / 4.09, rel=0.02)


def test_nothing_is_known_of_compute_that_is_real():
    measured = [of_k80(32, 1, 661, 660.0), of_k80(32, 1, 500, devices="cpu")]
    assert replayed(measured).compute_ms(measured[1].cell) is None


@pytest.mark.parametrize(
    ("system", "replayed_ms", "wire_ms"),
    [
        ({}, None, 204.5),
        ({}, 150.0, 104.5),
        ({}, 660.0, None),
        ({"framework": "tensorflow"}, 660.0, 204.5),
        ({"strategy": "parameter_server_sync", "host_count": 3}, 660.0, 818.0),
        ({"strategy": "parameter_server_async", "host_count": 3}, 660.0, 409.0),
    ],
)
def test_bytes_that_pass_during_the_backward_pass_of_a_device_take_no_time(system, replayed_ms, wire_ms):
    asked = cell(batch_size=64, bandwidth_mbit=4000.0, **K80, **system)
    found = {term.kind: term.amount for term in terms(asked, replayed_ms)}
    assert found.get("wire") == (wire_ms and pytest.approx(wire_ms, rel=0.01))
    assert ("compute" in found) == (replayed_ms is None)


def test_more_workers_of_a_replayed_device_are_predicted_from_few_among_others():
    others = measure([cell(batch_size=batch, workers=n) for batch in (64, 256, 1024) for n in (1, 2, 4)])
    few = [of_k80(32, n, 660 + n, 660.0, bandwidth_mbit=10_000.0) for n in (1, 2)]
    found = learn([*others, *few]).predict(of_k80(32, 4, 0, bandwidth_mbit=10_000.0).cell)
    assert found.time_ms == pytest.approx(660, rel=0.05)


def test_the_vcpus_of_a_host_do_not_matter_where_another_device_computes():
    measured = [of_k80(32, n, 660 + n, 660.0) for n in (1, 2, 3)]
    asked = [replace(measured[1].cell, vcpus=vcpus) for vcpus in (1.0, 64.0, None)]
    found = estimates(learn(measured), measured, asked)
    assert {(each.is_measured, each.unknown, round(each.time_ms, 6)) for each in found} == {
        (True, None, 662.0)
    }


def test_a_table_says_what_was_replayed(tmp_path):
    header = (
        "point_id,status,framework,strategy,runtime,devices,model,image_shape,batch_size,workers,step_time_ms,"
        "replay,replayed_compute_ms"
    )
    names = "measured,torch,ring_allreduce,bare,cpu,conv1,28x28x1"
    (tmp_path / "fig.csv").write_text(f"{header}\na,{names},64,2,25,K80,24.5\nb,{names},64,2,25,,\n")
    assert [each.replayed_ms for each in from_tables([tmp_path / "fig.csv"])] == [24.5, None]


def test_a_database_of_earlier_columns_is_filled_anew(tmp_path):
    path = tmp_path / "measurements.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(
        "create table source (name text primary key); insert into source values ('old');"
        "create table measurement (table_name text, model text);"
    )
    connection.close()
    table = tmp_path / "fig.csv"
    table.write_text(
        "point_id,status,framework,strategy,runtime,devices,model,image_shape,batch_size,workers,step_time_ms\n"
        "a,measured,torch,ring_allreduce,bare,cpu,conv1,28x28x1,64,2,25\n"
    )
    sources = find_sources(tmp_path, tmp_path / "imported")
    for _ in range(2):  # the second finds the columns of today
        (stored,) = Database(path).refresh(sources)
        assert (stored.name, stored.count, stored.problem) == ("here", 1, None)
    _, known = Database(path).knowledge("here")
    assert known.measured == from_tables([table])
