"""The layers of a model, as data that each framework builds, and the shape of images."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Shape = tuple[int, int, int]  # height, width, channels
Sides = int | tuple[int, int]  # in pixels: of a square, or height and width


@dataclass(frozen=True)
class Conv:
    """A convolution; `kernel`, `stride` and `padding` are in pixels, `std` is as for Dense."""

    inputs: int
    outputs: int
    kernel: Sides
    stride: int = 1
    padding: Sides = 0
    bias: bool = True
    std: float | None = None

    @property
    def window(self) -> int:
        """How many pixels the kernel looks at."""
        return math.prod(height_width(self.kernel))


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
class AveragePool:
    """Average of a square window of `kernel` pixels; padding counts as zeros."""

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


@dataclass(frozen=True)
class Concat:
    """What branches make of the same input, channels after channels."""

    branches: "tuple[Layers, ...]"


Layer = (
    Conv
    | BatchNorm
    | ReLU
    | MaxPool
    | AveragePool
    | AdaptiveAveragePool
    | Flatten
    | Dense
    | Dropout
    | Residual
    | Concat
)
Layers = tuple[Layer, ...]
# From an image's shape (height, width, channels) and the number of classes to layers that map the image to its logits.
Describe = Callable[[Shape, int], Layers]


def height_width(sides: Sides) -> tuple[int, int]:
    """Tell sides apart.

    Args:
        sides: one number for a square.

    Returns:
        Height and width.
    """
    return (sides, sides) if isinstance(sides, int) else sides


def branches_of(layer: Layer) -> tuple[Layers, ...]:
    """List what a layer is made of that has branches.

    Args:
        layer: of a model.

    Returns:
        The branches in the canonical order, each from the same input; none for a layer without.
    """
    match layer:
        case Residual(body, shortcut):
            return body, shortcut
        case Concat(branches):
            return branches
    return ()


def flat(layers: Layers) -> Iterator[Layer]:
    """Walk through all layers in the canonical order, including those within branches.

    Args:
        layers: of a model, or of a part of it.

    Yields:
        Layers that have no branches.
    """
    for layer in layers:
        if branches := branches_of(layer):
            for branch in branches:
                yield from flat(branch)
        else:
            yield layer


@dataclass(frozen=True)
class PassedLayer:
    """A layer that images pass, with their shapes before and after it; one with branches stands for what joins them."""

    layer: Layer
    inputs: Shape
    outputs: Shape


def passed(layers: Layers, shape: Shape) -> Iterator[PassedLayer]:
    """Walk through all layers that images pass, in the canonical order.

    Args:
        layers: of a model, or of a part of it.
        shape: of the image that enters, (height, width, channels).

    Yields:
        Layers with their shapes; one with branches comes after them, and reads what all of them have made.
    """
    for layer in layers:
        before, shape = shape, output_shape(layer, shape)
        for branch in branches_of(layer):
            yield from passed(branch, before)
        if isinstance(layer, Residual):
            before = (shape[0], shape[1], 2 * shape[2])
        elif isinstance(layer, Concat):
            before = shape
        yield PassedLayer(layer, before, shape)


def parameters_of(layer: Layer) -> tuple[tuple[int, ...], ...]:
    """List the shapes of a layer's parameter arrays, in the canonical order and axes.

    Args:
        layer: without branches, whose layers have arrays of their own.

    Returns:
        Weights (outputs, inputs, height, width) or (outputs, inputs), biases (outputs,), and for a normalisation
        (channels,) twice; empty for a layer without parameters.
    """
    match layer:
        case Conv(inputs, outputs, kernel, bias=bias):
            return (outputs, inputs, *height_width(kernel)), *([(outputs,)] if bias else [])
        case Dense(inputs, outputs):
            return (outputs, inputs), (outputs,)
        case BatchNorm(channels):
            return (channels,), (channels,)
    return ()


def parameter_count(layer: Layer) -> int:
    """Count the numbers in a layer's parameter arrays.

    Args:
        layer: without branches, whose layers have arrays of their own.

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
            return *_swept(shape, kernel, stride, padding), channels
        case MaxPool(kernel, stride, padding) | AveragePool(kernel, stride, padding):
            return *_swept(shape, kernel, stride, padding), shape[2]
        case AdaptiveAveragePool(size):
            return size, size, shape[2]
        case Flatten():
            return 1, 1, math.prod(shape)
        case Dense(_, features):
            return 1, 1, features
        case Residual(body, _):
            return _shape_after(body, shape)
        case Concat(branches):
            made = [_shape_after(branch, shape) for branch in branches]
            return *made[0][:2], sum(channels for *_, channels in made)
        case BatchNorm() | ReLU() | Dropout():
            return shape


def _shape_after(layers: Layers, shape: Shape) -> Shape:
    for each in layers:
        shape = output_shape(each, shape)
    return shape


def _swept(shape: Shape, kernel: Sides, stride: int, padding: Sides) -> tuple[int, int]:
    """Count the positions of a window along both sides of an image; all are in pixels."""
    height, width = (
        (size + 2 * margin - side) // stride + 1
        for size, side, margin in zip(shape[:2], height_width(kernel), height_width(padding), strict=True)
    )
    return height, width


def kept_std(outputs: int, kernel: Sides) -> float:
    """Compute the spread of first weights with which gradients keep theirs (He et al., arXiv:1502.01852).

    Args:
        outputs: how many channels the convolution gives; a rectifier follows.
        kernel: its sides in pixels.

    Returns:
        The standard deviation of the weights.
    """
    return math.sqrt(2 / (outputs * math.prod(height_width(kernel))))
