"""The models of the studies, counted by PyTorch itself in its own environment."""

import json
import subprocess

import pytest

from ddlbench.plan.catalogue import MODELS
from ddlbench.runtime.bare import package_root

COUNT = """
import json, torch
from ddlbench.workers.torch_models import MODELS
found, shapes = {}, json.loads(input())
for name, make in MODELS.items():
    for shape in shapes[name]:
        height, width, channels = map(int, shape.split("x"))
        model = make((height, width, channels))
        outputs = model(torch.zeros(3, channels, height, width))
        found[f"{name} {shape}"] = [sum(p.numel() for p in model.parameters()), list(outputs.shape)]
print(json.dumps(found))
"""
# What autograd keeps of real tensors, beside what is said of it without any.
KEPT = """
import json, torch
from torch.nn.functional import cross_entropy
from ddlbench.workers.torch_models import MODELS
from ddlbench.workers.torch_worker import kept_bytes
found = {}
for name, make in MODELS.items():
    model, kept = make((28, 28, 1)), {}
    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes(), tensor
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        cross_entropy(model(torch.zeros(256, 1, 28, 28)), torch.zeros(256, dtype=torch.int64))
    found[name] = [kept_bytes(name, (28, 28, 1), 256), sum(size for size, _ in kept.values())]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(torch_environment) -> dict[str, list]:
    """Parameters and shape of the outputs for three images, by model and image shape."""
    answer = subprocess.run(
        [torch_environment["python"], "-c", COUNT],
        input=json.dumps({name: list(shapes) for name, shapes in MODELS.items()}),
        env={"PYTHONPATH": package_root()},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_every_model_of_the_catalogue_gives_ten_outputs_an_image_for_every_shape_that_it_takes(found):
    assert set(found) == {f"{name} {shape}" for name, shapes in MODELS.items() for shape in shapes}
    assert all(shape == [3, 10] for _, shape in found.values())


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("mlp 28x28x1", 784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10),  # zhao2016
        ("conv2 28x28x1", 61_706),  # LeNet-5
        ("cnn 28x28x1", 20 * 26 + 50 * 501 + 801 * 500 + 501 * 10),  # pani2020
        ("keras_sequential 32x32x3", 56_320 + 650),  # anwar2021 prints 56,320, which is without the outputs
        ("keras_sequential 28x28x1", 56_394),
    ],
)
def test_a_model_has_as_many_parameters_as_its_paper_says(found, model, parameters):
    assert found[model][0] == parameters


def test_what_a_step_must_keep_is_known_without_the_memory_for_it(torch_environment):
    answer = subprocess.run(
        [torch_environment["python"], "-c", KEPT],
        env={"PYTHONPATH": package_root()},
        capture_output=True,
        text=True,
        check=True,
    )
    for said, kept in json.loads(answer.stdout).values():
        assert said == pytest.approx(kept, rel=0.02)


def test_one_convolution_has_more_parameters_than_two(found):
    assert found["conv1 28x28x1"][0] > found["conv2 28x28x1"][0]
