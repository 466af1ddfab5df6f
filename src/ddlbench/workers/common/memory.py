"""How much memory training takes, from a model's description alone; whatever has not the host's memory is refused.

Frameworks do not always say so when memory is too small: some of their libraries abort or crash.
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
    """Raise MemoryError where that is more than this process may have."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit != resource.RLIM_INFINITY and needed_bytes > limit:
        raise MemoryError(f"{what} {needed_bytes} bytes, and there are {limit}")


def used_bytes() -> int:
    """What this process has now of what RLIMIT_DATA limits."""
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("VmData:"))
    return 1024 * int(line.split()[1])


def parameter_bytes(name: str, shape: Shape) -> int:
    """The size of a model's parameters."""
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


def activation_bytes(name: str, shape: Shape, images: int) -> int:
    """The size of a batch and of what each layer makes of it; a rectifier overwrites what it was given."""
    return (
        _FLOAT_BYTES * images * (math.prod(shape) + sum(map(math.prod, outputs(layers(name, shape), shape))))
    )


def outputs(layers: Layers, shape: Shape) -> Iterator[Shape]:
    """The shape of what each layer makes of an image of `shape`; the last one is that of what leaves them all."""
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
    """How many places a window of `kernel` has on a side of `size`."""
    return (size + 2 * padding - kernel) // stride + 1
