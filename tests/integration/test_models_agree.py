"""The same model in every framework: the same parameters, and the same training from them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlbench.datasets import synthetic
from ddlbench.plan.catalogue import MODELS
from ddlbench.system.package import package_root

HERE = Path(__file__).parent
# What is trained: model, shape of its images, precision, learning rate, images a step, steps.
#
# A fresh ResNet multiplies a difference in the last digit by more than ten each step at a usual learning rate: PyTorch
# in single precision is 0.1 from PyTorch in double precision after ten steps. So its mathematics are compared in double
# precision, at a rate that single precision holds too, because MXNet keeps its rates so; and in single precision at a
# rate at which the steps stay small, for two steps. Later, how far frameworks are apart hangs on the processor: on one,
# losses were 1.2e-5 apart after two steps, 1e-4 after four and 1.03e-3 after eight.
TRAINED = [
    ("conv2", (28, 28, 1), "float32", 0.1, 32, 10),
    ("cnn", (28, 28, 1), "float32", 0.1, 32, 10),
    ("keras_sequential", (32, 32, 3), "float32", 0.1, 16, 10),
    ("resnet18", (32, 32, 3), "float64", 1 / 128, 16, 10),
    ("resnet18", (32, 32, 3), "float32", 0.0001, 16, 2),
    ("vgg16", (32, 32, 3), "float32", 0.01, 4, 2),
    ("inception_v3", (299, 299, 3), "float64", 1 / 8192, 2, 2),
    # The last one's images the frameworks' own models see too.
    ("alexnet", (224, 224, 3), "float32", 0.01, 4, 2),
]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each framework builds and trains."""
    folder = tmp_path_factory.mktemp("batches")
    train = []
    for name, shape, precision, learning_rate, batch_size, steps in TRAINED:
        arrays, _ = synthetic.read({}, shape, seed=1)
        count = steps * batch_size
        images = (arrays["train_images"][:count].astype(np.float32) / 255 - 0.5) * 4
        labels = arrays["train_labels"][:count].astype(np.int64)
        file = str(folder / f"{name}-{precision}.npz")
        np.savez(file, images=images.reshape(steps, -1, *shape), labels=labels.reshape(steps, -1))
        train.append((name, shape, precision, learning_rate, file))
    build = {name: list(map(int, shapes[0].split("x"))) for name, shapes in MODELS.items()}
    return {"build": build, "train": train, "zoo": file}


def run(environment: dict[str, Any], script: str, job: dict[str, Any]) -> Any:
    """What a script of this folder prints in a framework's own environment."""
    answer = subprocess.run(
        [environment["python"], str(HERE / script)],
        input=json.dumps(job),
        env={"PYTHONPATH": package_root(), "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def torch(torch_environment, job) -> dict[str, Any]:
    return run(torch_environment, "plain_torch.py", job)


@pytest.fixture(scope="module")
def tensorflow(tensorflow_environment, job) -> dict[str, Any]:
    return run(tensorflow_environment, "plain_tensorflow.py", job)


@pytest.fixture(scope="module")
def mxnet(mxnet_environment, job) -> dict[str, Any]:
    return run(mxnet_environment, "plain_mxnet.py", job)


# Not one test for all: a script may take ten minutes on a busy machine, and a test's time-out counts its fixtures.
def test_every_model_has_the_same_parameters_in_the_same_order_in_pytorch_and_tensorflow(torch, tensorflow):
    assert set(torch["shapes"]) == set(MODELS)
    assert torch["shapes"] == tensorflow["shapes"]


def test_every_model_has_the_same_parameters_in_the_same_order_in_mxnet(torch, mxnet):
    assert torch["shapes"] == mxnet["shapes"]


@pytest.mark.parametrize(
    "number", range(len(TRAINED)), ids=[f"{name}-{kind}" for name, _, kind, *_ in TRAINED]
)
def test_frameworks_agree_on_the_loss_of_every_step_from_the_same_weights(torch, tensorflow, mxnet, number):
    expected = torch["trained"][number]
    for other in (tensorflow["trained"][number], mxnet["trained"][number]):
        assert other["losses"] == pytest.approx(expected["losses"], abs=1e-3)
        assert other["spreads"] == pytest.approx(expected["spreads"], rel=1e-2)


def test_tensorflow_s_own_model_gives_the_same_outputs_from_the_same_weights(tensorflow):
    assert_same_outputs(tensorflow["zoo"]["vgg16"])


@pytest.mark.parametrize("name", ["resnet18", "alexnet", "inception_v3"])
def test_mxnet_s_own_models_give_the_same_outputs_from_the_same_weights(mxnet, name):
    assert_same_outputs(mxnet["zoo"][name])


def assert_same_outputs(of_both: list[Any]) -> None:
    ours, theirs = np.array(of_both)
    assert np.abs(ours).max() > 0.01
    assert ours == pytest.approx(theirs, abs=1e-4 * np.abs(theirs).max())
