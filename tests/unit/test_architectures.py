"""The description of the models that every framework builds from."""

import numpy as np
import pytest

from ddlbench.plan.catalogue import MODELS
from ddlbench.workers.common.architectures import ARCHITECTURES, SMALL, classes
from ddlbench.workers.common.first_weights import initial


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
