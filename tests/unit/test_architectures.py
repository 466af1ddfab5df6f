"""The description of the models that every framework builds from."""

import numpy as np
import pytest

from ddlbench.plan.catalogue import MODELS
from ddlbench.workers.common.models.architectures import ARCHITECTURES, SMALL, classes, layers
from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.common.models.layers import (
    AveragePool,
    Concat,
    Conv,
    PassedLayer,
    output_shape,
    parameters_of,
    passed,
)


def test_the_catalogue_has_the_models_that_are_described():
    assert list(MODELS) == list(ARCHITECTURES)


def test_large_models_have_the_outputs_of_their_published_size():
    assert {classes(name, (28, 28, 1)) for name in SMALL} == {10}
    assert classes("vgg16", (32, 32, 3)) == classes("resnet18", (224, 224, 3)) == 1000
    assert classes("resnet18", (28, 28, 1)) == 10


def test_a_seed_says_the_first_weights():
    first, again, other = (list(initial("conv2", (28, 28, 1), seed)) for seed in (1, 1, 2))
    assert all(map(np.array_equal, first, again))
    assert not any(map(np.array_equal, first, other))


def test_first_weights_are_the_same_numbers_today_and_later():
    weights, *_ = initial("conv2", (28, 28, 1), seed=1)
    normal, *_ = initial("resnet18", (28, 28, 1), seed=1)
    assert weights.dtype == normal.dtype == np.float32
    assert weights.ravel()[:2] == pytest.approx([-0.010724545, 0.00472863])
    assert normal.ravel()[:2] == pytest.approx([0.1018884, -0.08417243])


@pytest.mark.parametrize(
    ("name", "shape", "number", "spread"),
    [
        ("conv2", (28, 28, 1), 2, 1 / np.sqrt(3 * 6 * 25)),  # uniform +-1/sqrt(fan-in), PyTorch's default
        ("resnet18", (28, 28, 1), 3, np.sqrt(2 / (64 * 9))),  # normal by fan-out, as in torchvision
        ("resnet18", (28, 28, 1), -2, 1 / np.sqrt(3 * 512)),
    ],
)
def test_first_weights_are_spread_as_the_reference_spreads_them(name, shape, number, spread):
    weights = list(initial(name, shape, seed=1))[number]
    assert weights.std() == pytest.approx(spread, rel=0.03)
    assert weights.mean() == pytest.approx(0, abs=0.1 * spread)


def test_inception_s_blocks_make_images_of_the_sizes_of_its_paper():
    network, shape, made = layers("inception_v3", (299, 299, 3)), (299, 299, 3), []
    for layer in network:
        shape = output_shape(layer, shape)
        if isinstance(layer, Concat):
            made.append(shape)
    assert made[:3] == [(35, 35, 256), (35, 35, 288), (35, 35, 288)]
    assert made[3:8] == 5 * [(17, 17, 768)]
    assert made[8:] == [(8, 8, 1280), (8, 8, 2048), (8, 8, 2048)]
    assert shape == (1, 1, 1000)


def test_a_kernel_that_is_a_row_keeps_the_height_of_an_image_with_margins_beside_it_alone():
    row = Conv(2, 4, (1, 7), padding=(0, 3), bias=False)
    assert output_shape(row, (17, 17, 2)) == (17, 17, 4)
    assert output_shape(Conv(2, 4, (1, 7)), (17, 17, 2)) == (17, 11, 4)
    assert parameters_of(row) == ((4, 2, 1, 7),)
    assert row.window == 7


def test_branches_are_passed_one_after_another_and_what_joins_them_reads_what_they_made():
    pool, convolution = AveragePool(3, 1, padding=1), Conv(2, 4, 1)
    joined = Concat(((pool,), (convolution,)))
    assert list(passed((joined,), (8, 8, 2))) == [
        PassedLayer(pool, (8, 8, 2), (8, 8, 2)),
        PassedLayer(convolution, (8, 8, 2), (8, 8, 4)),
        PassedLayer(joined, (8, 8, 6), (8, 8, 6)),
    ]
