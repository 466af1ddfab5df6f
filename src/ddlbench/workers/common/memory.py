"""The memory that training takes, from a model's description alone; a point that cannot fit is refused in advance.

Frameworks do not always report that memory is too small: some of their libraries abort or crash.
"""

import math
import resource
from collections.abc import Iterator

from ddlbench.workers.common.architectures import layers
from ddlbench.workers.common.layers import (
    AdaptiveAveragePool,
    BatchNorm,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layers,
    MaxPool,
    ReLU,
    Residual,
    Shape,
    flat,
)

_FLOAT_BYTES = 4


def refuse(needed_bytes: int, what: str) -> None:
    """Refuse what needs more memory than this process may have (RLIMIT_DATA).

    Args:
        needed_bytes: all that the process will need.
        what: the beginning of the error's text, before the number of bytes.

    Raises:
        MemoryError: the limit is lower.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit != resource.RLIM_INFINITY and needed_bytes > limit:
        raise MemoryError(f"{what} {needed_bytes} bytes, and there are {limit}")


def used_bytes() -> int:
    """Read how many bytes this process uses of what RLIMIT_DATA limits."""
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("VmData:"))
    return 1024 * int(line.split()[1])


def parameter_bytes(name: str, shape: Shape) -> int:
    """Count the bytes of a model's parameters.

    Args:
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).

    Returns:
        Bytes, with float32 numbers.
    """
    total = 0
    for layer in flat(layers(name, shape)):
        match layer:
            case Conv(inputs, outputs, kernel, bias=bias):
                total += inputs * outputs * kernel**2 + outputs * bias
            case Dense(inputs, outputs):
                total += (inputs + 1) * outputs
            case BatchNorm(channels):
                total += 2 * channels
    return _FLOAT_BYTES * total


def outputs(layers: Layers, shape: Shape) -> Iterator[Shape]:
    """Find the shape of each layer's output for one image.

    Args:
        layers: of a model, or of a part of it.
        shape: of the image that enters, (height, width, channels).

    Yields:
        Shapes (height, width, channels) of all layers that make an array of their own; (1, 1, features) for vectors. A
        residual's parts come before its sum. The last one is the shape of the output of all layers.
    """
    for layer in layers:
        match layer:
            case Conv(_, channels, kernel, stride, padding):
                height, width = (swept(size, kernel, stride, padding) for size in shape[:2])
                shape = height, width, channels
            case MaxPool(kernel, stride, padding):
                height, width = (swept(size, kernel, stride, padding) for size in shape[:2])
                shape = height, width, shape[2]
            case AdaptiveAveragePool(size):
                shape = size, size, shape[2]
            case Flatten():
                shape = 1, 1, math.prod(shape)
            case Dense(_, features):
                shape = 1, 1, features
            case Residual(body, shortcut):
                yield from outputs(shortcut, shape)
                for each in outputs(body, shape):
                    yield (shape := each)
            case ReLU() | Dropout():
                continue
        yield shape


def swept(size: int, kernel: int, stride: int, padding: int) -> int:
    """Count the positions of a window along one side of an image.

    Args:
        size: of the side, in pixels.
        kernel: side of the window, in pixels.
        stride: between two positions, in pixels.
        padding: at each end of the side, in pixels.

    Returns:
        The size of the output along this side.
    """
    return (size + 2 * padding - kernel) // stride + 1
