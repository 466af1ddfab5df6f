"""The predictor, on trainings whose time is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from prediction_samples import cell, grid, measure, true_ms

from ddlbench.errors import DdlbenchError
from ddlbench.prediction.nearness import apart, around, nearness
from ddlbench.prediction.predictor import learn
from ddlbench.prediction.terms import sent_bytes, terms, trips
from ddlbench.prediction.workload import UNKNOWN, workload


def split(seed=0):
    """A third of the grid measured, and the rest."""
    cells = grid()
    order = np.random.default_rng(seed).permutation(len(cells))
    return measure([cells[i] for i in order[:30]], seed=seed), [cells[i] for i in order[30:]]


@pytest.fixture(scope="module")
def predictor():
    return learn(split()[0])


def errors(predictor, cells):
    return [abs(math.log(predictor.predict(each).time_ms / true_ms(each))) for each in cells]


def test_a_third_of_a_grid_tells_the_rest_within_a_few_percent(predictor):
    assert np.median(errors(predictor, split()[1])) < 0.04


def test_tenfold_jumps_in_a_table_do_not_move_the_other_cells():
    measured, rest = split()
    spoilt = [
        replace(each, time_ms=10 * each.time_ms) if i in (3, 17) else each for i, each in enumerate(measured)
    ]
    assert np.median(errors(learn(spoilt), rest)) < 0.06


def test_repetitions_of_cells_do_not_narrow_the_interval_of_another_cell():
    odd = measure(grid()[::2], noise=0.2)  # each cell has its own factor, which nothing else tells
    found = learn(odd * 2)
    predicted = found.predict(grid()[5])
    assert math.log(predicted.high_ms / predicted.time_ms) > 0.2
    assert found.nearness.farthest == nearness([each.cell for each in odd]).farthest


def test_repetitions_of_one_cell_alone_tell_nothing_of_others():
    found = learn(measure([cell()] * 3)).predict(cell(workers=3))
    assert found.high_ms == math.inf


def test_round_trips_count_also_where_nothing_with_latency_was_measured():
    known = [each for each in grid() if each.latency_ms == 0]
    found = learn(measure(known)).model.physics
    asked = cell(batch_size=512, workers=4)
    more_ms = sum(found.parts_ms(replace(asked, latency_ms=20.0)).values()) - sum(
        found.parts_ms(asked).values()
    )
    assert more_ms == pytest.approx(6 * 20.0)


@pytest.mark.long
def test_nine_of_ten_measurements_are_within_the_interval():
    inside = []
    for seed in range(6):
        measured, rest = split(seed)
        found = learn(measured)
        for each in measure(rest, seed=100 + seed):
            prediction = found.predict(each.cell)
            inside.append(prediction.low_ms <= each.time_ms <= prediction.high_ms)
    assert 0.82 < np.mean(inside) < 0.98


def test_the_parts_of_a_step_are_told_apart(predictor):
    asked = cell(batch_size=512, workers=4, latency_ms=20.0)
    parts = predictor.predict(asked).parts_ms
    assert parts["latency"] == pytest.approx(2 * 6 * 20, rel=0.1)
    assert parts["compute"] == pytest.approx(0.1 * 512 / 4, rel=0.3)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"workers": 64}, "doublings"),
        ({"batch_size": 10_000_000}, "doublings"),
        ({"latency_ms": 5000.0}, "doublings"),
        ({"model": "resnet50"}, "model"),
        ({"framework": "mxnet"}, "framework"),
        ({"strategy": "parameter_server_sync"}, "strategy"),
    ],
)
def test_nothing_is_said_of_what_is_far_from_all_that_was_measured(predictor, changes, word):
    prediction = predictor.predict(cell(**changes))
    assert not prediction.is_known
    assert word in prediction.unknown


def test_between_measured_cells_there_is_an_answer(predictor):
    prediction = predictor.predict(cell(batch_size=300, workers=5, latency_ms=12.0))
    assert prediction.is_known
    assert prediction.low_ms < prediction.time_ms < prediction.high_ms


def test_few_measurements_give_no_interval_and_two_give_nothing():
    few = learn(measure(grid()[:5]))
    assert few.predict(grid()[0]).high_ms == math.inf
    with pytest.raises(DdlbenchError, match="too few"):
        learn(measure(grid()[:2]))


def test_the_same_table_gives_the_same_predictions_in_any_number_of_runs(predictor):
    measured, rest = split()
    assert learn(measured).predict(rest[0]) == predictor.predict(rest[0])


def test_many_cells_at_once_are_predicted_as_each_alone(predictor):
    cells = [*grid()[:7], cell(workers=5), cell(framework="mxnet"), cell(batch_size=10_000_000)]
    for together, each in zip(predictor.predict_all(cells), cells, strict=True):
        alone = predictor.predict(each)
        assert (together.cell, together.unknown) == (each, alone.unknown)
        assert [together.time_ms, together.low_ms, together.high_ms] == pytest.approx(
            [alone.time_ms, alone.low_ms, alone.high_ms]
        )


def test_residuals_are_those_of_the_regressor(predictor):
    residual, cells = predictor.model.residual, [*grid()[:7], cell(workers=5, latency_ms=3.0)]
    means, deviations = residual.process.predict(residual.features.of(cells), return_std=True)
    found = residual.log_ratios(cells)
    assert found[0] == pytest.approx(means)
    assert found[1] == pytest.approx(deviations)


def test_the_distance_is_that_of_the_nearest_measured_cell_and_infinite_for_a_name_that_was_not_measured():
    measured = [*grid()[:9], cell(model="mlp", image_shape="28x28x1")]
    asked = [cell(workers=5), cell(model="mlp", workers=4), cell(batch_size=999, latency_ms=7.0)]
    near = around(measured, 1.0)
    expected = [min(apart(each, other) for other in measured) for each in asked]
    assert near.distances(asked) == pytest.approx(expected)
    assert near.distances([cell(runtime="docker")]) == math.inf


def test_a_ring_moves_two_n_minus_one_over_n_of_the_model():
    size = workload("conv1", "28x28x1").parameter_bytes
    assert [sent_bytes(cell(workers=n)) / size for n in (1, 2, 4)] == [0, 1, 1.5]
    assert [trips(cell(workers=n)) for n in (1, 2, 4)] == [0, 2, 6]


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3])
def test_how_exact_measurements_without_bounds_are_is_learned_from_enough_of_them(noise):
    exact = learn(measure(grid(), noise))
    assert exact.unbounded_noise == pytest.approx(noise, rel=0.3)
    assert "assumed" not in exact.about_noise
    bounded = [
        replace(each, low_ms=each.time_ms / 1.1, high_ms=each.time_ms * 1.1) for each in measure(grid())
    ]
    few = learn([*bounded[9:], *measure(grid(), noise)[:9]])
    assert few.unbounded_noise is None
    assert "exact to 3 %" in few.about_noise
    assert "assumed" in few.about_noise


def test_each_message_has_an_end_that_may_be_lost_and_each_packet_may_be_lost_again():
    def amounts(**asked):
        return {
            term.kind: term.amount for term in terms(cell(bandwidth_mbit=2000.0, loss_percent=5.0, **asked))
        }

    two, four = amounts(workers=2), amounts(workers=4)
    assert two["tails"] == pytest.approx(2 * 2 * 0.05**2 * 200)  # two messages of each of two workers
    assert four["tails"] == pytest.approx(6 * two["tails"])  # six of each of four
    assert four["again"] == pytest.approx(3 * two["again"])  # 3/2 of the bytes of each of twice as many


def test_a_server_on_its_own_host_sends_the_model_to_each_worker_and_beside_a_worker_to_the_others():
    size = workload("conv1", "28x28x1").parameter_bytes
    server = cell(workers=2, strategy="parameter_server_sync")
    assert sent_bytes(server) / size == 2
    assert sent_bytes(replace(server, host_count=2)) / size == 1


@pytest.mark.parametrize(
    ("model", "shape", "parameters"),
    [
        ("conv2", "28x28x1", 61_706),  # LeNet-5
        ("keras_sequential", "28x28x1", 56_394),
        ("alexnet", "224x224x3", 61_100_840),
        ("vgg16", "224x224x3", 138_357_544),
        ("resnet50", "224x224x3", 25_557_032),
    ],
)
def test_models_have_as_many_parameters_as_published(model, shape, parameters):
    assert workload(model, shape).parameter_bytes == 4 * parameters


def test_resnet50_takes_four_giga_multiplications_an_image():
    assert workload("resnet50", "224x224x3").giga_multiplications == pytest.approx(4.1, rel=0.03)


def test_a_layer_puts_out_a_number_for_each_place_of_each_channel_and_a_flat_one_none_of_its_own():
    sizes = (784, 128, 128, 64, 64, 10)
    assert workload("mlp", "28x28x1").giga_outputs == pytest.approx(sum(sizes[1:]) / 1e9)
    first, second = 6 * 28 * 28, 16 * 10 * 10
    dense = 2 * (120 + 84) + 10
    assert workload("conv2", "28x28x1").giga_outputs == pytest.approx(
        (2 * first + first / 4 + 2 * second + second / 4 + dense) / 1e9
    )


@pytest.mark.parametrize(("model", "shape"), [("nobody", "28x28x1"), ("conv1", ""), ("conv1", "wide")])
def test_a_model_that_nobody_knows_has_unknown_sizes(model, shape):
    assert workload(model, shape) == UNKNOWN
