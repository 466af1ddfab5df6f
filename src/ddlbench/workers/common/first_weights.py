"""The first weights of a model: the same numbers for every framework, from the seed alone."""

import math
from collections.abc import Iterator

import numpy as np

from ddlbench.workers.common.architectures import layers
from ddlbench.workers.common.layers import BatchNorm, Conv, Dense, Shape, flat


def initial(name: str, shape: Shape, seed: int) -> Iterator[np.ndarray]:
    """First weights (float32), one parameter after another in the canonical order; the same in every framework.

    The distributions are those of torchvision's definitions, and PyTorch's defaults for the small models. Parameters
    come one at a time because the largest has 411 MB.
    """
    random = np.random.default_rng(seed)
    for layer in flat(layers(name, shape)):
        match layer:
            case Conv(inputs, outputs, kernel, bias=bias, std=std):
                yield weights(random, (outputs, inputs, kernel, kernel), std)
                if bias:
                    yield biases(random, outputs, inputs * kernel**2, std)
            case Dense(inputs, outputs, std):
                yield weights(random, (outputs, inputs), std)
                yield biases(random, outputs, inputs, std)
            case BatchNorm(channels):
                yield np.ones(channels, np.float32)
                yield np.zeros(channels, np.float32)


def weights(random: np.random.Generator, shape: tuple[int, ...], std: float | None) -> np.ndarray:
    """First weights [outputs, inputs, ...] of a layer."""
    if std is None:
        return uniform(random, shape, math.prod(shape[1:]))
    drawn = random.standard_normal(shape, np.float32)
    drawn *= np.float32(std)
    return drawn


def biases(random: np.random.Generator, outputs: int, fan_in: int, std: float | None) -> np.ndarray:
    """First biases [outputs] of a layer."""
    return uniform(random, (outputs,), fan_in) if std is None else np.zeros(outputs, np.float32)


def uniform(random: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> np.ndarray:
    """Numbers between -1/sqrt(fan_in) and 1/sqrt(fan_in)."""
    bound = np.float32(1 / math.sqrt(fan_in))
    drawn = random.random(shape, np.float32)
    drawn *= 2 * bound
    drawn -= bound
    return drawn
