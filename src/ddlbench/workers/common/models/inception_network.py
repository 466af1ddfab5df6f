"""Inception V3 as data, as torchvision defines it, without the auxiliary classifier, which its outputs do not need."""

from ddlbench.workers.common.models.layers import (
    AdaptiveAveragePool,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    Layers,
    MaxPool,
    ReLU,
    Shape,
    Sides,
    height_width,
)

_STD = 0.1  # of first weights; torchvision cuts them off at 2, which is twenty times as far
_ROW, _COLUMN = (1, 7), (7, 1)  # height, width


def inception_v3(shape: Shape, classes: int) -> Layers:
    """Describe Inception V3 (Szegedy et al., arXiv:1512.00567, table 1).

    Args:
        shape: of an image, (height, width, channels); in the paper (299, 299, 3).
        classes: how many outputs there are.

    Returns:
        The layers in order.
    """
    first: list[Layer] = [
        *convolution(shape[2], 32, 3, stride=2),
        *convolution(32, 32, 3),
        *same_size(32, (64, 3)),
        MaxPool(3, 2),
        *convolution(64, 80, 1),
        *convolution(80, 192, 3),
        MaxPool(3, 2),
    ]
    blocks = (
        squares(192, pooled=32),
        squares(256, pooled=64),
        squares(288, pooled=64),
        halved_35(288),
        *(rows_and_columns(768, width) for width in (128, 160, 160, 192)),
        halved_17(768),
        spread(1280),
        spread(2048),
    )
    return (*first, *blocks, AdaptiveAveragePool(1), Flatten(), Dropout(0.5), Dense(2048, classes, std=_STD))


def squares(inputs: int, pooled: int) -> Concat:
    """Describe the block for images of 35x35, with square kernels (the paper's figure 5).

    Args:
        inputs: how many channels enter.
        pooled: how many channels the pooled branch gives.

    Returns:
        Its four branches, which give 224 channels and those of the pooled one.
    """
    return Concat(
        (
            same_size(inputs, (64, 1)),
            same_size(inputs, (48, 1), (64, 5)),
            same_size(inputs, (64, 1), (96, 3), (96, 3)),
            averaged(inputs, pooled),
        )
    )


def halved_35(inputs: int) -> Concat:
    """Describe the block from 35x35 to 17x17.

    Args:
        inputs: how many channels enter.

    Returns:
        Its three branches, which give 480 channels beside those that enter.
    """
    return Concat(
        (
            convolution(inputs, 384, 3, stride=2),
            (*same_size(inputs, (64, 1), (96, 3)), *convolution(96, 96, 3, stride=2)),
            (MaxPool(3, 2),),
        )
    )


def rows_and_columns(inputs: int, width: int) -> Concat:
    """Describe the block for images of 17x17, whose kernels are rows and columns (the paper's figure 6).

    Args:
        inputs: how many channels enter.
        width: how many channels there are between the kernels of a branch.

    Returns:
        Its four branches, which give 192 channels each.
    """
    return Concat(
        (
            same_size(inputs, (192, 1)),
            same_size(inputs, (width, 1), (width, _ROW), (192, _COLUMN)),
            same_size(inputs, (width, 1), (width, _COLUMN), (width, _ROW), (width, _COLUMN), (192, _ROW)),
            averaged(inputs, 192),
        )
    )


def halved_17(inputs: int) -> Concat:
    """Describe the block from 17x17 to 8x8.

    Args:
        inputs: how many channels enter.

    Returns:
        Its three branches, which give 512 channels beside those that enter.
    """
    return Concat(
        (
            (*same_size(inputs, (192, 1)), *convolution(192, 320, 3, stride=2)),
            (
                *same_size(inputs, (192, 1), (192, _ROW), (192, _COLUMN)),
                *convolution(192, 192, 3, stride=2),
            ),
            (MaxPool(3, 2),),
        )
    )


def spread(inputs: int) -> Concat:
    """Describe the block for images of 8x8, whose branches end in a row beside a column (the paper's figure 7).

    Args:
        inputs: how many channels enter.

    Returns:
        Its four branches, which give 2,048 channels.
    """
    row_and_column = Concat((same_size(384, (384, (1, 3))), same_size(384, (384, (3, 1)))))
    return Concat(
        (
            same_size(inputs, (320, 1)),
            (*same_size(inputs, (384, 1)), row_and_column),
            (*same_size(inputs, (448, 1), (384, 3)), row_and_column),
            averaged(inputs, 192),
        )
    )


def averaged(inputs: int, outputs: int) -> Layers:
    """Describe the branch that takes averages of 3x3 pixels first.

    Args:
        inputs: how many channels enter.
        outputs: how many channels leave.

    Returns:
        The pooling and a convolution of single pixels.
    """
    return AveragePool(3, 1, padding=1), *same_size(inputs, (outputs, 1))


def same_size(inputs: int, *convolutions: tuple[int, Sides]) -> Layers:
    """Describe convolutions one after another, with margins with which the image keeps its size.

    Args:
        inputs: how many channels enter.
        *convolutions: of each the channels that leave it, and the sides of its kernel, which are odd.

    Returns:
        The convolutions, each with its normalisation and rectifier.
    """
    layers: list[Layer] = []
    for outputs, kernel in convolutions:
        height, width = height_width(kernel)
        layers += convolution(inputs, outputs, kernel, padding=(height // 2, width // 2))
        inputs = outputs
    return tuple(layers)


def convolution(inputs: int, outputs: int, kernel: Sides, stride: int = 1, padding: Sides = 0) -> Layers:
    """Describe a convolution with its normalisation and rectifier.

    Args:
        inputs: how many channels enter.
        outputs: how many channels leave.
        kernel: its sides in pixels.
        stride: in pixels.
        padding: in pixels.

    Returns:
        The three layers.
    """
    convolved = Conv(inputs, outputs, kernel, stride, padding, bias=False, std=_STD)
    return convolved, BatchNorm(outputs, epsilon=1e-3), ReLU()
