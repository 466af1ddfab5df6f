"""The models of the studies, counted by PyTorch itself in its own environment."""

import json
import subprocess
from typing import Any

import pytest

from ddlbench.plan.catalogue import MODELS
from ddlbench.system.package import package_root
from ddlbench.workers.common.models.architectures import SMALL, classes

# On tensors that have a shape and no content, where the largest models cost nothing.
COUNT = """
import json, torch
from ddlbench.workers.torch.models import MODELS
found, shapes = {}, json.loads(input())
for name, make in MODELS.items():
    for shape in shapes[name]:
        height, width, channels = map(int, shape.split("x"))
        with torch.device("meta"):
            model = make((height, width, channels))
            outputs = model(torch.zeros(3, channels, height, width))
        found[f"{name} {shape}"] = [sum(p.numel() for p in model.parameters()), list(outputs.shape)]
print(json.dumps(found))
"""
# What autograd keeps of real tensors, beside what is said of it without any.
KEPT = """
import json, torch
from torch.nn.functional import cross_entropy
from ddlbench.workers.torch.models import MODELS
from ddlbench.workers.torch.memory import kept_bytes
found = {}
for name, (shape, images) in json.loads(input()).items():
    height, width, channels = shape
    model, kept = MODELS[name](tuple(shape)), {}
    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes(), tensor
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        batch = torch.zeros(images, channels, height, width)
        cross_entropy(model(batch), torch.zeros(images, dtype=torch.int64))
    found[name] = [kept_bytes(name, tuple(shape), images), sum(size for size, _ in kept.values())]
print(json.dumps(found))
"""
# Parameters in the canonical order, given to a model and taken back; dropout; statistics that have seen something.
LOADED = """
import json, torch
import numpy as np
from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.torch.models import build, dump, load
model = build("resnet18", (28, 28, 1))
model(torch.ones(2, 1, 28, 28))
load(model, initial("resnet18", (28, 28, 1), seed=3))
same = all(map(np.array_equal, dump(model), initial("resnet18", (28, 28, 1), seed=3)))
buffers = dict(model.named_buffers())
fresh = all((buffers[k] == ("var" in k)).all().item() for k in buffers)
try:
    load(model, list(initial("resnet18", (28, 28, 1), seed=3))[:-1])
    refused = False
except ValueError:
    refused = True
alexnets = [build("alexnet", (224, 224, 3), dropout=dropout) for dropout in (False, True)]
images = torch.ones(1, 3, 224, 224)
repeats = [torch.equal(model(images), model(images)) for model in alexnets]
print(json.dumps([same, fresh, refused, repeats]))
"""


@pytest.fixture(scope="module")
def found(torch_environment) -> dict[str, list]:
    """Parameters and shape of the outputs for three images, by model and image shape."""
    return run(torch_environment, COUNT, {name: list(shapes) for name, shapes in MODELS.items()})


def run(environment: dict[str, Any], script: str, given: Any = None) -> Any:
    """What a script prints in a framework's own environment."""
    answer = subprocess.run(
        [environment["python"], "-c", script],
        input=json.dumps(given),
        env={"PYTHONPATH": package_root()},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_every_model_of_the_catalogue_gives_its_outputs_for_every_shape_of_image_that_it_takes(found):
    assert set(found) == {f"{name} {shape}" for name, shapes in MODELS.items() for shape in shapes}
    for name, shapes in MODELS.items():
        for shape in shapes:
            height, width, channels = map(int, shape.split("x"))
            assert found[f"{name} {shape}"][1] == [3, classes(name, (height, width, channels))]


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("mlp 28x28x1", 784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10),  # zhao2016
        ("conv2 28x28x1", 61_706),  # LeNet-5
        ("cnn 28x28x1", 20 * 26 + 50 * 501 + 801 * 500 + 501 * 10),  # pani2020
        ("keras_sequential 32x32x3", 56_320 + 650),  # anwar2021 prints 56,320, which is without the outputs
        ("keras_sequential 28x28x1", 56_394),
        ("alexnet 224x224x3", 61_100_840),  # these are printed in torchvision's documentation
        ("vgg16 224x224x3", 138_357_544),
        ("vgg19 224x224x3", 143_667_240),
        ("resnet18 224x224x3", 11_689_512),
        ("resnet50 224x224x3", 25_557_032),
        ("resnet101 224x224x3", 44_549_160),
        ("resnet152 224x224x3", 60_192_808),
        ("inception_v3 299x299x3", 27_161_264 - 3_326_696),  # without the auxiliary classifier
        (
            "resnet18 28x28x1",
            11_689_512 - 64 * (3 * 49 - 9) - 513 * 990,
        ),  # pani2020's first kernel, ten outputs
    ],
)
def test_a_model_has_as_many_parameters_as_its_paper_says(found, model, parameters):
    assert found[model][0] == parameters


@pytest.mark.long
def test_what_a_step_must_keep_is_known_without_the_memory_for_it(torch_environment):
    small = {name: [[28, 28, 1], 256] for name in SMALL}
    large = {"alexnet": [[224, 224, 3], 2], "vgg16": [[32, 32, 3], 8], "resnet50": [[32, 32, 3], 8]}
    large["inception_v3"] = [[299, 299, 3], 1]
    for said, kept in run(torch_environment, KEPT, small | large).values():
        assert said == pytest.approx(kept, rel=0.02)


def test_the_bytes_of_a_large_model_do_not_depend_on_the_size_of_its_colour_images(found):
    for name in ("vgg16", "vgg19", "resnet18", "resnet50", "resnet101", "resnet152"):
        assert found[f"{name} 32x32x3"][0] == found[f"{name} 224x224x3"][0]


def test_a_model_takes_and_gives_back_its_parameters_and_forgets_what_it_has_seen(torch_environment):
    same, fresh, refused, repeats = run(torch_environment, LOADED)
    assert same
    assert fresh
    assert refused
    assert repeats == [True, False]  # without dropout, and with it


def test_one_convolution_has_more_parameters_than_two(found):
    assert found["conv1 28x28x1"][0] > found["conv2 28x28x1"][0]
