"""What training takes in memory, from a model's description."""

import resource

import pytest

from ddlbench.workers.common.first_weights import initial
from ddlbench.workers.common.memory import activation_bytes, parameter_bytes, refuse, used_bytes

MODELS = {
    "mlp": (28, 28, 1),
    "conv2": (28, 28, 1),
    "keras_sequential": (32, 32, 3),
    "resnet18": (32, 32, 3),
    "resnet50": (224, 224, 3),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_size_of_parameters_is_that_of_the_first_weights(name):
    weights = initial(name, MODELS[name], 1)
    assert parameter_bytes(name, MODELS[name]) == sum(each.nbytes for each in weights)


def test_every_layer_of_lenet_leaves_what_it_is_known_to_leave():
    numbers = 28 * 28 + 6 * 28 * 28 + 6 * 14 * 14 + 16 * 10 * 10 + 16 * 5 * 5 + 400 + 120 + 84 + 10
    assert activation_bytes("conv2", (28, 28, 1), 3) == 4 * 3 * numbers


def test_twice_the_images_take_twice_the_memory():
    for name, shape in MODELS.items():
        assert activation_bytes(name, shape, 2) == 2 * activation_bytes(name, shape, 1) > 0


def test_what_is_more_than_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    refuse(1000, "a step takes")
    with pytest.raises(MemoryError, match="a step takes 1001 bytes, and there are 1000"):
        refuse(1001, "a step takes")


def test_a_process_has_some_memory_already():
    assert 1 << 20 < used_bytes() < 1 << 34
