"""The layers of a model, as data that each framework builds, and the shape of images."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Shape = tuple[int, int, int]  # height, width, channels


@dataclass(frozen=True)
class Conv:
    """A convolution with a square kernel; `kernel`, `stride` and `padding` are in pixels, `std` is as for Dense."""

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
    momentum: float = 0.9  # weight of the old running statistics; PyTorch's is that of the new ones


@dataclass(frozen=True)
class ReLU:
    """Rectifier."""


@dataclass(frozen=True)
class MaxPool:
    """Largest value of a square window of `kernel` pixels; padding counts as minus infinity."""

    kernel: int
    stride: int
    padding: int = 0


@dataclass(frozen=True)
class AdaptiveAveragePool:
    """Averages over windows chosen so that size x size pixels are left; a smaller image is repeated."""

    size: int


@dataclass(frozen=True)
class Flatten:
    """Turns an image into a vector, channel by channel."""


@dataclass(frozen=True)
class Dense:
    """Fully connected.

    `std`: of normal first weights, with biases of zero; None: weights and biases are uniform, +-1/sqrt(fan-in).
    """

    inputs: int
    outputs: int
    std: float | None = None


@dataclass(frozen=True)
class Dropout:
    """The place of dropout in the published model. Models are built without it unless asked: see `layers`."""

    rate: float


@dataclass(frozen=True)
class Residual:
    """The sum of what body and shortcut make of the same input; an empty shortcut passes the input on."""

    body: "Layers"
    shortcut: "Layers"


Layer = Conv | BatchNorm | ReLU | MaxPool | AdaptiveAveragePool | Flatten | Dense | Dropout | Residual
Layers = tuple[Layer, ...]
# From an image's shape (height, width, channels) and the number of classes to layers that map the image to its logits.
Describe = Callable[[Shape, int], Layers]


def flat(layers: Layers) -> Iterator[Layer]:
    """Walk through all layers in the canonical order, including those within residuals.

    Args:
        layers: of a model, or of a part of it.

    Yields:
        Layers that are no residuals.
    """
    for layer in layers:
        if isinstance(layer, Residual):
            yield from flat((*layer.body, *layer.shortcut))
        else:
            yield layer


@dataclass(frozen=True)
class PassedLayer:
    """A layer that images pass, with their shapes before and after it; a residual's stand for the sum of its parts."""

    layer: Layer
    inputs: Shape
    outputs: Shape


def passed(layers: Layers, shape: Shape) -> Iterator[PassedLayer]:
    """Walk through all layers that images pass, in the canonical order.

    Args:
        layers: of a model, or of a part of it.
        shape: of the image that enters, (height, width, channels).

    Yields:
        Layers with their shapes; a residual comes after its parts, and reads what both of them have made.
    """
    for layer in layers:
        before, shape = shape, output_shape(layer, shape)
        if isinstance(layer, Residual):
            yield from passed(layer.body, before)
            yield from passed(layer.shortcut, before)
            before = (shape[0], shape[1], 2 * shape[2])
        yield PassedLayer(layer, before, shape)


def parameters_of(layer: Layer) -> tuple[tuple[int, ...], ...]:
    """List the shapes of a layer's parameter arrays, in the canonical order and axes.

    Args:
        layer: no residual.

    Returns:
        Weights (outputs, inputs, kernel, kernel) or (outputs, inputs), biases (outputs,), and for a normalisation
        (channels,) twice; empty for a layer without parameters.
    """
    match layer:
        case Conv(inputs, outputs, kernel, bias=bias):
            return (outputs, inputs, kernel, kernel), *([(outputs,)] if bias else [])
        case Dense(inputs, outputs):
            return (outputs, inputs), (outputs,)
        case BatchNorm(channels):
            return (channels,), (channels,)
    return ()


def parameter_count(layer: Layer) -> int:
    """Count the numbers in a layer's parameter arrays.

    Args:
        layer: no residual.

    Returns:
        How many there are; 0 for a layer without parameters.
    """
    return sum(map(math.prod, parameters_of(layer)))


def output_shape(layer: Layer, shape: Shape) -> Shape:
    """Find the shape of a layer's output.

    Args:
        layer: of a model.
        shape: of the image that enters, (height, width, channels).

    Returns:
        The shape of the image that leaves it; (1, 1, features) for a vector.
    """
    match layer:
        case Conv(_, channels, kernel, stride, padding):
            height, width = (_swept(size, kernel, stride, padding) for size in shape[:2])
            return height, width, channels
        case MaxPool(kernel, stride, padding):
            height, width = (_swept(size, kernel, stride, padding) for size in shape[:2])
            return height, width, shape[2]
        case AdaptiveAveragePool(size):
            return size, size, shape[2]
        case Flatten():
            return 1, 1, math.prod(shape)
        case Dense(_, features):
            return 1, 1, features
        case Residual(body, _):
            for each in body:
                shape = output_shape(each, shape)
            return shape
        case BatchNorm() | ReLU() | Dropout():
            return shape


def _swept(size: int, kernel: int, stride: int, padding: int) -> int:
    """Count the positions of a window along one side of an image; all are in pixels."""
    return (size + 2 * padding - kernel) // stride + 1


def kept_std(outputs: int, kernel: int) -> float:
    """Compute the spread of first weights with which gradients keep theirs (He et al., arXiv:1502.01852).

    Args:
        outputs: how many channels the convolution gives; a rectifier follows.
        kernel: side of the kernel in pixels.

    Returns:
        The standard deviation of the weights.
    """
    return math.sqrt(2 / (outputs * kernel**2))
