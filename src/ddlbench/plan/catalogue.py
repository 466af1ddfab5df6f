"""Every name that a configuration may use, and which of them can be measured now.

A new model, data set or framework starts here.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Dataset:
    """A data set as a plan sees it; training_images is None where there is no end of them."""

    image_shape: str | None  # height x width x channels; None: any
    training_images: int | None


DATASETS: Mapping[str, Dataset] = {
    "digits": Dataset("28x28x1", 1437),  # scikit-learn's 1,797 scans, enlarged; a fifth is kept for the test
    "mnist": Dataset("28x28x1", 60000),
    "synthetic": Dataset(None, None),
}

MODELS: Mapping[str, tuple[str, ...]] = {  # name -> image shapes that it takes
    "mlp": ("28x28x1",),
    "conv1": ("28x28x1",),
    "conv2": ("28x28x1",),  # LeNet-5
    "cnn": ("28x28x1",),
    "keras_sequential": ("28x28x1", "32x32x3"),
}

STRATEGIES: Mapping[str, str] = {  # name -> short name, for ids
    "ring_allreduce": "ring",
    "parameter_server_sync": "ps-sync",
    "parameter_server_async": "ps-async",
}

NAMES: Mapping[str, tuple[str, ...]] = {
    "framework": ("torch", "tensorflow", "horovod", "mxnet"),
    "strategy": tuple(STRATEGIES),
    "runtime": ("bare", "docker", "apptainer"),
    "devices": ("cpu", "gpu"),
    "fabric": ("loopback", "emulated", "ethernet", "infiniband"),
    "model": tuple(MODELS),
    "dataset": tuple(DATASETS),
    "image_shape": ("28x28x1", "32x32x3"),
}

MEASURABLE: Mapping[str, tuple[str, ...]] = {  # what a point must have to be measured now
    "framework": ("torch",),
    "strategy": ("ring_allreduce",),
    "runtime": ("bare",),
    "devices": ("cpu",),
    "fabric": ("emulated", "loopback"),
}


def default_image_shape(dataset: str) -> str:
    """Shape of a data set's images where the grid does not say one."""
    return DATASETS[dataset].image_shape or "28x28x1"
