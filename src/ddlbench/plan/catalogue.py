"""Every name that a configuration may use, and which of them can be measured now.

A new model, data set or framework is first entered here, a strategy in `workers.strategies`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ddlbench.workers.strategies import STRATEGIES


@dataclass(frozen=True)
class Dataset:
    """A data set, as far as a plan needs it.

    Attributes:
        image_shapes: height x width x channels, the default first; None if it has images of any shape.
        training_images: how many; None if they are made as needed.
        classes: how many labels there are.
    """

    image_shapes: tuple[str, ...] | None
    training_images: int | None
    classes: int = 10


DATASETS: Mapping[str, Dataset] = {
    "digits": Dataset(("28x28x1",), 1437),  # scikit-learn's 1,797 scans, enlarged; a fifth is for the test
    "mnist": Dataset(("28x28x1",), 60000),
    "cifar10": Dataset(("32x32x3", "224x224x3"), 50000),  # the latter enlarged
    "imagenet": Dataset(("224x224x3",), 1281167, 1000),
    "synthetic": Dataset(None, None),
}

MODELS: Mapping[str, tuple[str, ...]] = {  # name -> image shapes that it takes
    "mlp": ("28x28x1",),
    "conv1": ("28x28x1",),
    "conv2": ("28x28x1",),  # LeNet-5
    "cnn": ("28x28x1",),
    "keras_sequential": ("28x28x1", "32x32x3"),
    "alexnet": ("224x224x3",),  # no other shape here has the 63 pixels that it needs
    "vgg16": ("32x32x3", "224x224x3"),
    "vgg19": ("32x32x3", "224x224x3"),
    "resnet18": ("28x28x1", "32x32x3", "224x224x3"),
    "resnet50": ("32x32x3", "224x224x3"),
    "resnet101": ("32x32x3", "224x224x3"),
    "resnet152": ("32x32x3", "224x224x3"),
    "inception_v3": ("299x299x3",),
}


@dataclass(frozen=True)
class Framework:
    """A framework that trains.

    Attributes:
        environment: the name of the environment that it is installed in.
        strategies: those that it has.
        devices: those that it computes on.
        no_gpu: why it does not compute on GPUs; None if it does.
        replays: the strategies whose compute can be replayed.
        no_replay: why the others' cannot.
    """

    environment: str
    strategies: tuple[str, ...]
    devices: tuple[str, ...] = ("cpu", "gpu")
    no_gpu: str | None = None
    replays: tuple[str, ...] = ()
    no_replay: str = ""


_HOROVOD_HAS_NO_GPU = "it is built here without CUDA, which takes nvcc and NCCL's headers"


FRAMEWORKS: Mapping[str, Framework] = {
    "torch": Framework(
        "torch",
        (
            "ring_allreduce",
            "ring_allreduce_fp16",
            "ring_allreduce_powersgd",
            "hierarchical_allreduce",
            "parameter_server_sync",
            "parameter_server_async",
        ),
        replays=(
            "ring_allreduce",
            "ring_allreduce_fp16",
            "hierarchical_allreduce",
            "parameter_server_sync",
            "parameter_server_async",
        ),
        no_replay="PowerSGD computes factors of gradients on the device, and no profile has the time of that",
    ),
    "tensorflow": Framework(
        "tensorflow",
        ("ring_allreduce", "parameter_server_sync", "parameter_server_async"),
        replays=("ring_allreduce", "parameter_server_sync", "parameter_server_async"),
    ),
    "horovod_torch": Framework(
        "horovod", ("ring_allreduce",), ("cpu",), _HOROVOD_HAS_NO_GPU, replays=("ring_allreduce",)
    ),
    "horovod_tensorflow": Framework(
        "horovod", ("ring_allreduce",), ("cpu",), _HOROVOD_HAS_NO_GPU, replays=("ring_allreduce",)
    ),
    "mxnet": Framework(
        "mxnet",
        ("parameter_server_sync", "parameter_server_device_sync", "parameter_server_async"),
        replays=("parameter_server_sync", "parameter_server_device_sync", "parameter_server_async"),
    ),
}

PROFILED_IN = ("torch", "tensorflow")  # whose steps `ddlbench profile` measures; a GPU's with the first alone

NAMES: Mapping[str, tuple[str, ...]] = {
    "framework": tuple(FRAMEWORKS),
    "strategy": tuple(STRATEGIES),
    "runtime": ("bare", "docker", "apptainer"),
    "devices": ("cpu", "gpu"),
    "compute": ("real", "replay"),
    "fabric": ("loopback", "emulated", "ethernet", "infiniband"),
    "model": tuple(MODELS),
    "dataset": tuple(DATASETS),
    "image_shape": ("28x28x1", "32x32x3", "224x224x3", "299x299x3"),
}

PROBE_TRANSPORTS = ("tcp", "gloo", "nccl", "ucx")  # for messages between two hosts

MEASURABLE: Mapping[str, tuple[str, ...]] = {  # what a point must have to be measured now
    "runtime": ("bare", "docker", "apptainer"),
    "fabric": ("emulated", "loopback"),
}

SCREENSHOTS: Mapping[str, str] = {  # figures that are pictures of the recommender's page -> what it is asked
    "anwar2021_fig16": "",  # nothing yet; the others are the answers that the paper shows
    "anwar2021_fig17": "batch_size=64000&latency_ms=0",
    "anwar2021_fig18": "batch_size=64000&latency_ms=20",
}

BETWEEN_MACHINES = ("ethernet", "infiniband")  # fabrics that need the machines of a scheduler


def least_batch_per_worker(model: str, image_shape: str) -> int:
    """Find how many images a worker needs in a step: 2 for a ResNet, which reduces small images to one pixel each.

    Args:
        model: a key of MODELS.
        image_shape: height x width x channels, as `28x28x1`.

    Returns:
        Images.
    """
    return 2 if model.startswith("resnet") and image_shape != "224x224x3" else 1


def default_image_shape(dataset: str) -> str:
    """Find the shape of a data set's images for a grid that does not give it.

    Args:
        dataset: a key of DATASETS.

    Returns:
        Height x width x channels, as `28x28x1`.
    """
    return (DATASETS[dataset].image_shapes or ("28x28x1",))[0]
