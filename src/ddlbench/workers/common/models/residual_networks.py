"""Deep networks with shortcuts, as data: the ResNets, as torchvision defines them, and their blocks."""

from collections.abc import Callable

from ddlbench.workers.common.models.layers import (
    AdaptiveAveragePool,
    BatchNorm,
    Conv,
    Dense,
    Describe,
    Flatten,
    Layer,
    Layers,
    MaxPool,
    ReLU,
    Residual,
    Shape,
    kept_std,
)

Block = Callable[[int, int, int], Layers]  # inputs, width, stride


def resnet(block: Block, expansion: int, blocks: tuple[int, ...]) -> Describe:
    """Make a ResNet (He et al., arXiv:1512.03385).

    Images smaller than ImageNet's pass the same layers, so that the number of bytes on the network is the same. Only
    for 28x28x1 the first kernel is 3x3, of one channel (pani2020).

    Args:
        block: describes a block from its input channels, its width and its stride.
        expansion: how many channels leave a block, relative to its width.
        blocks: how many blocks there are at each of the four sizes of the image.

    Returns:
        A function from an image's shape (height, width, channels) and the number of classes to the layers in order.
    """

    def describe(shape: Shape, classes: int) -> Layers:
        kernel = 3 if shape == (28, 28, 1) else 7
        layers: list[Layer] = [*normed(shape[2], 64, kernel, stride=2), ReLU(), MaxPool(3, 2, padding=1)]
        inputs = 64
        for stage, count in enumerate(blocks):
            width = 64 * 2**stage
            for index in range(count):
                layers += block(inputs, width, 2 if stage > 0 and index == 0 else 1)
                inputs = expansion * width
        return (*layers, AdaptiveAveragePool(1), Flatten(), Dense(inputs, classes))

    return describe


def basic(inputs: int, width: int, stride: int) -> Layers:
    """Describe ResNet's block of two 3x3 convolutions.

    Args:
        inputs: how many channels enter.
        width: how many channels each convolution gives, and so how many leave the block.
        stride: of the first convolution and of the shortcut.

    Returns:
        The residual and its rectifier.
    """
    return joined(
        inputs, width, stride, (*normed(inputs, width, 3, stride), ReLU(), *normed(width, width, 3))
    )


def bottleneck(inputs: int, width: int, stride: int) -> Layers:
    """Describe ResNet's block of three convolutions: 1x1, 3x3 with the stride, and 1x1.

    Args:
        inputs: how many channels enter.
        width: how many channels the first two convolutions give; four times as many leave the block.
        stride: of the 3x3 convolution and of the shortcut.

    Returns:
        The residual and its rectifier.
    """
    narrow = (*normed(inputs, width, 1), ReLU(), *normed(width, width, 3, stride), ReLU())
    return joined(inputs, 4 * width, stride, (*narrow, *normed(width, 4 * width, 1)))


def joined(inputs: int, outputs: int, stride: int, body: Layers) -> Layers:
    """Join a block's body and its shortcut, which is a convolution only where shapes differ.

    Args:
        inputs: how many channels enter.
        outputs: how many channels leave.
        stride: of the shortcut's convolution; the same as that of the body in all.
        body: the layers beside the shortcut.

    Returns:
        The residual and its rectifier.
    """
    shortcut = () if inputs == outputs and stride == 1 else normed(inputs, outputs, 1, stride)
    return Residual(body, shortcut), ReLU()


def normed(inputs: int, outputs: int, kernel: int, stride: int = 1) -> Layers:
    """Describe a convolution followed by batch normalisation, which makes a bias needless.

    Args:
        inputs: how many channels enter.
        outputs: how many channels leave.
        kernel: side of the kernel in pixels, odd; at stride 1 the image keeps its size.
        stride: in pixels.

    Returns:
        The convolution and the normalisation.
    """
    std = kept_std(outputs, kernel)
    return Conv(inputs, outputs, kernel, stride, kernel // 2, bias=False, std=std), BatchNorm(outputs)
