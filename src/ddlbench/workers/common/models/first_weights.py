"""The first weights of a model: the same numbers for every framework, from the seed alone."""

import math
from collections.abc import Iterator

import numpy as np

from ddlbench.workers.common.models.architectures import layers
from ddlbench.workers.common.models.layers import BatchNorm, Conv, Dense, Shape, flat, height_width


def initial(name: str, shape: Shape, seed: int) -> Iterator[np.ndarray]:
    """Draw the first parameters of a model, the same in every framework.

    The distributions are those of torchvision's definitions, and PyTorch's defaults for the small models. Parameters
    are made one at a time because the largest has 411 MB.

    Args:
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
        seed: of the random numbers.

    Yields:
        Each parameter in the canonical order, float32: weights (outputs, inputs, height, width) or (outputs, inputs),
        biases (outputs,), and for a normalisation (channels,) twice, ones and then zeros.
    """
    random = np.random.default_rng(seed)
    for layer in flat(layers(name, shape)):
        match layer:
            case Conv(inputs, outputs, kernel, bias=bias, std=std):
                yield weights(random, (outputs, inputs, *height_width(kernel)), std)
                if bias:
                    yield biases(random, outputs, inputs * layer.window, std)
            case Dense(inputs, outputs, std):
                yield weights(random, (outputs, inputs), std)
                yield biases(random, outputs, inputs, std)
            case BatchNorm(channels):
                yield np.ones(channels, np.float32)
                yield np.zeros(channels, np.float32)


def weights(random: np.random.Generator, shape: tuple[int, ...], std: float | None) -> np.ndarray:
    """Draw the first weights of a layer.

    Args:
        random: where the numbers come from; it advances.
        shape: (outputs, inputs, ...).
        std: spread of a normal distribution; None: uniform, +-1/sqrt(fan-in).

    Returns:
        Weights of this shape, float32.
    """
    if std is None:
        return uniform(random, shape, math.prod(shape[1:]))
    drawn = random.standard_normal(shape, np.float32)
    drawn *= np.float32(std)
    return drawn


def biases(random: np.random.Generator, outputs: int, fan_in: int, std: float | None) -> np.ndarray:
    """Draw the first biases of a layer.

    Args:
        random: where the numbers come from; it advances.
        outputs: how many there are.
        fan_in: how many inputs each output depends on.
        std: spread of the layer's weights; None: biases are uniform, +-1/sqrt(fan-in), else zero.

    Returns:
        Biases, float32, (outputs,).
    """
    return uniform(random, (outputs,), fan_in) if std is None else np.zeros(outputs, np.float32)


def uniform(random: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> np.ndarray:
    """Draw numbers between -1/sqrt(fan_in) and 1/sqrt(fan_in).

    Args:
        random: where the numbers come from; it advances.
        shape: of the result.
        fan_in: how many inputs each output of the layer depends on.

    Returns:
        Numbers of this shape, float32.
    """
    bound = np.float32(1 / math.sqrt(fan_in))
    drawn = random.random(shape, np.float32)
    drawn *= 2 * bound
    drawn -= bound
    return drawn
