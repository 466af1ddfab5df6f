"""The small networks of the studies, as data: a fully connected one, LeNet-5 and others for small images."""

import math

from ddlbench.workers.common.models.layers import (
    AdaptiveAveragePool,
    Conv,
    Dense,
    Flatten,
    Layers,
    MaxPool,
    ReLU,
    Shape,
)


def mlp(shape: Shape, classes: int) -> Layers:
    """Describe a fully connected network, 784-128-64-10 on 28x28x1 (zhao2016; MXNet's example network for MNIST).

    Args:
        shape: of an image, (height, width, channels).
        classes: how many outputs the last layer has.

    Returns:
        The layers in order; they map an image to `classes` logits.
    """
    sizes = math.prod(shape), 128, 64
    return (
        Flatten(),
        Dense(sizes[0], sizes[1]),
        ReLU(),
        Dense(sizes[1], sizes[2]),
        ReLU(),
        Dense(sizes[2], classes),
    )


def conv1(shape: Shape, classes: int) -> Layers:
    """Describe LeNet-5's first convolution and its dense layers, for 28x28 (zhao2016); more weights than conv2.

    Args:
        shape: of an image, (height, width, channels); 28x28.
        classes: how many outputs the last layer has.

    Returns:
        The layers in order; they map an image to `classes` logits.
    """
    return (
        *(Conv(shape[2], 6, 5, padding=2), ReLU(), MaxPool(2, 2)),  # the padding makes 28x28 LeNet's 32x32
        Flatten(),
        *(Dense(6 * 14 * 14, 120), ReLU(), Dense(120, 84), ReLU(), Dense(84, classes)),
    )


def conv2(shape: Shape, classes: int) -> Layers:
    """Describe LeNet-5, for 28x28: C1 6@5x5, S2, C3 16@5x5, S4, dense (zhao2016, section III.B).

    Args:
        shape: of an image, (height, width, channels); 28x28.
        classes: how many outputs the last layer has.

    Returns:
        The layers in order; they map an image to `classes` logits.
    """
    return (
        *(Conv(shape[2], 6, 5, padding=2), ReLU(), MaxPool(2, 2)),
        *(Conv(6, 16, 5), ReLU(), MaxPool(2, 2)),
        Flatten(),
        *(Dense(16 * 5 * 5, 120), ReLU(), Dense(120, 84), ReLU(), Dense(84, classes)),
    )


def cnn(shape: Shape, classes: int) -> Layers:
    """Describe two convolutions with max-pooling, for 28x28; dense 500 from 800, dense 10 (pani2020, section III.B).

    Args:
        shape: of an image, (height, width, channels); 28x28.
        classes: how many outputs the last layer has.

    Returns:
        The layers in order; they map an image to `classes` logits.
    """
    return (
        *(Conv(shape[2], 20, 5), ReLU(), MaxPool(2, 2)),
        *(Conv(20, 50, 5), ReLU(), MaxPool(2, 2)),
        Flatten(),
        *(Dense(50 * 4 * 4, 500), ReLU(), Dense(500, classes)),
    )


def keras_sequential(shape: Shape, classes: int) -> Layers:
    """Describe three 3x3 convolutions of 32, 64 and 64 filters (anwar2021, section 6.1).

    The convolutions have 56,320 parameters on 32x32x3; the outputs add 650. On 28x28x1 it has 56,394 in all.

    Args:
        shape: of an image, (height, width, channels).
        classes: how many outputs the last layer has.

    Returns:
        The layers in order; they map an image to `classes` logits.
    """
    return (
        *(Conv(shape[2], 32, 3), ReLU(), MaxPool(2, 2)),
        *(Conv(32, 64, 3), ReLU(), MaxPool(2, 2)),
        *(Conv(64, 64, 3), ReLU()),
        *(AdaptiveAveragePool(1), Flatten(), Dense(64, classes)),
    )
