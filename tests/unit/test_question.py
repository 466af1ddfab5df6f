"""What a question leaves open, and what is taken for what it does not say."""

from dataclasses import replace

import pytest
from prediction_samples import cell, grid, measure

from ddlbench.prediction.cell import Measured
from ddlbench.prediction.question import Unanswerable, choices

MEASURED = measure(grid())
K80 = {"model": "resnet50", "image_shape": "224x224x3", "devices": "K80", "latency_ms": 20.0}
SMALL, LARGE = {"vcpus": 1.0, "memory_gb": 4.0}, {"vcpus": 2.0, "memory_gb": 8.0}


def of(*counted):
    """Measurements: so many of each kind of cell, by the kind's differences."""
    return [
        Measured(cell(batch_size=64 * (1 + n), **changes), 1.0)
        for count, changes in counted
        for n in range(count)
    ]


def test_a_question_is_completed_by_what_was_measured():
    more = [*MEASURED, *(Measured(replace(each.cell, framework="mxnet"), each.time_ms) for each in MEASURED)]
    found = choices(more, {"batch_size": 128.0, "latency_ms": 5.0})
    assert {each.framework for each in found.cells} == {"torch", "mxnet"}
    assert {each.workers for each in found.cells} == {1, 2, 3, 4, 5, 6}
    assert {each.bandwidth_mbit for each in found.cells} == {1000.0}
    with pytest.raises(Unanswerable, match="did you mean 'conv1'"):
        choices(more, {"batch_size": 128.0, "model": "conv11"})


def test_what_is_not_said_is_what_was_measured_together_most_often():
    """Each by itself would be a conv1 on a GPU, and hosts of 1 vCPU with 8 GB."""
    measured = of((4, {"devices": "K80"}), (3, {"devices": "gpu"}), (5, {"model": "mlp", "devices": "gpu"}))
    found = choices(measured, {"batch_size": 1e6, "latency_ms": 3.0})
    assert {(each.model, each.devices) for each in found.cells} == {("mlp", "gpu")}
    assert found.assumed == {"model": "mlp", "devices": "gpu"}
    hosts = of((3, SMALL), (2, SMALL | {"memory_gb": 8.0}), (2, LARGE))
    found = choices(hosts, {"batch_size": 1e6})
    assert {(each.vcpus, each.memory_gb) for each in found.cells} == {(1.0, 4.0)}
    assert found.assumed == {"vcpus": "1", "memory_gb": "4"}


@pytest.mark.parametrize(
    ("strategy", "assumed"),
    [("ring_allreduce", {}), ("parameter_server_sync", {"host_count": "3"})],
)
def test_hosts_that_a_study_has_are_told_where_a_server_may_be_on_one(strategy, assumed):
    hosts = of((2, {"host_count": 3, "strategy": strategy}), (1, {"host_count": 2, "strategy": strategy}))
    assert choices(hosts, {"batch_size": 1e6}).assumed == assumed


def test_what_is_not_said_is_as_it_was_measured_with_the_numbers_that_are_said():
    measured = [*MEASURED, *of((2, K80), (2, LARGE | {"bandwidth_mbit": 400.0, "latency_ms": 50.0}))]
    asked = {"batch_size": 128.0, "latency_ms": 50.0}
    found = choices(measured, asked)
    assert {(each.vcpus, each.memory_gb, each.bandwidth_mbit) for each in found.cells} == {(2.0, 8.0, 400.0)}
    assert found.assumed["vcpus"] == "2"
    assert {each.vcpus for each in choices(measured, asked | {"latency_ms": 49.0}).cells} == {1.0}
    assert {each.latency_ms for each in choices(measured, asked | {"latency_ms": 49.0}).cells} == {49.0}


def test_what_is_trained_is_the_same_at_each_batch_size():
    measured = [*MEASURED, *of((2, K80), (2, {"model": "mlp", "latency_ms": 7.0}))]
    trained = [
        (each.model, each.devices)
        for batch in (64.0, 100.0, 128.0, 192.0)
        for latency in (0.0, 7.0, 20.0)
        for each in choices(measured, {"batch_size": batch, "latency_ms": latency}).cells
    ]
    assert {*trained} == {("conv1", "cpu")}


def test_a_question_may_name_what_computes_as_far_as_hosts_differ_in_it():
    measured = of((3, SMALL), (2, LARGE), (2, LARGE | {"image_shape": "32x32x3"}))
    found = choices(measured, {"batch_size": 128.0, "vcpus": 2.0, "image_shape": "32x32x3"})
    assert {(each.vcpus, each.memory_gb, each.image_shape) for each in found.cells} == {(2.0, 8.0, "32x32x3")}
    assert {each.vcpus for each in choices(measured, {"batch_size": 128.0, "vcpus": 16.0}).cells} == {16.0}
    with pytest.raises(
        Unanswerable, match="image_shape '1x1x1' was not measured; measured: 28x28x1, 32x32x3"
    ):
        choices(measured, {"batch_size": 128.0, "image_shape": "1x1x1"})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"model": "mlp"}, "this table names no model"),
        ({"framework": "mxnet", "image_shape": "1x1x1"}, "this table names no image_shape"),
        (
            {"devices": "K80", "framework": "mxnet"},
            "'mxnet' was not measured with devices K80; measured: torch",
        ),
    ],
)
def test_a_name_that_was_not_measured_is_refused_with_what_it_was_not_measured_with(asked, message):
    unnamed = {"model": "", "image_shape": ""}
    measured = of((1, unnamed | {"framework": "mxnet"}), (1, unnamed | {"devices": "K80"}))
    with pytest.raises(Unanswerable, match=message):
        choices(measured, {"batch_size": 128.0} | asked)


def test_a_model_is_asked_on_the_device_that_it_was_measured_on():
    """Also where other models were measured on another one more often."""
    found = choices([*MEASURED, *of((2, K80))], {"batch_size": 128.0, "model": "resnet50"})
    assert {each.devices for each in found.cells} == {"K80"}
    assert found.assumed == {}


def test_a_number_of_workers_that_is_said_twice_is_one_choice():
    cells = choices(MEASURED, {"batch_size": 128}, [2, 3, 2]).cells
    assert [each.workers for each in cells] == [2, 3]


def test_too_many_choices_are_refused_before_they_are_made(monkeypatch):
    many = [Measured(cell(workers=8, framework=f"f{number}"), 1.0) for number in range(50)]
    made = []
    monkeypatch.setattr(
        "ddlbench.prediction.question.replace",
        lambda *args, **changes: made.append(0) or replace(*args, **changes),
    )
    with pytest.raises(Unanswerable, match="5000 options are too many"):
        choices(many, {"batch_size": 1e9}, range(1, 101))
    assert len(made) == 1


def test_of_too_many_numbers_of_workers_those_are_compared_that_were_measured():
    published = [Measured(cell(workers=2**power), 1.0) for power in range(10)]
    asked = choices(published, {"batch_size": 1e4}).cells
    assert [each.workers for each in asked] == [2**power for power in range(10)]
    assert len(choices(published, {"batch_size": 200}).cells) == 200
