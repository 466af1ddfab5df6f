"""The layers of a model, as data that each framework builds, and the shape of images."""

from collections.abc import Iterator
from dataclasses import dataclass

Shape = tuple[int, int, int]  # height, width, channels


@dataclass(frozen=True)
class Conv:
    """A convolution with a square kernel. `std` as for Dense."""

    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    padding: int = 0
    bias: bool = True
    std: float | None = None


@dataclass(frozen=True)
class BatchNorm:
    """Batch normalisation with running statistics; the same constants everywhere."""

    channels: int
    epsilon: float = 1e-5
    momentum: float = 0.9  # of the old running statistics; PyTorch counts that of the new ones


@dataclass(frozen=True)
class ReLU:
    """Rectifier."""


@dataclass(frozen=True)
class MaxPool:
    """Largest value of a square window; what pads the image never is it."""

    kernel: int
    stride: int
    padding: int = 0


@dataclass(frozen=True)
class AdaptiveAveragePool:
    """Averages over windows chosen so that size x size are left; a smaller image is repeated."""

    size: int


@dataclass(frozen=True)
class Flatten:
    """An image as a vector, channel by channel."""


@dataclass(frozen=True)
class Dense:
    """Fully connected. `std`: of normal first weights, with biases of zero; None: uniform, +-1/sqrt(fan-in), both."""

    inputs: int
    outputs: int
    std: float | None = None


@dataclass(frozen=True)
class Dropout:
    """Where the paper drops out. Models are built without it unless asked: see `layers`."""

    rate: float


@dataclass(frozen=True)
class Residual:
    """The sum of what both ways make of the same input; an empty shortcut passes it on."""

    body: "Layers"
    shortcut: "Layers"


Layer = Conv | BatchNorm | ReLU | MaxPool | AdaptiveAveragePool | Flatten | Dense | Dropout | Residual
Layers = tuple[Layer, ...]


def flat(layers: Layers) -> Iterator[Layer]:
    """All layers in the canonical order, those within residuals too."""
    for layer in layers:
        if isinstance(layer, Residual):
            yield from flat((*layer.body, *layer.shortcut))
        else:
            yield layer
