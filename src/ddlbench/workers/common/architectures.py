"""The models of the studies, as data: their layers, the sizes of these, and the distribution of the first weights.

Every framework builds its models from this one description (`models.py` in its folder), and not from its own zoo. In
the zoos a ResNet has biases in its convolutions (Keras), has strides elsewhere (Gluon) or is missing (Keras has no
AlexNet and no ResNet-18), so the same name would send different numbers of bytes over the network. The reference for
the large models are torchvision's definitions. Where a zoo has the same model, a test gives it the same weights and
expects the same outputs.

The canonical order of parameters is that of the layers; the body of a residual comes before its shortcut, and weights
come before biases. The canonical shapes are PyTorch's: (outputs, inputs, height, width) for a convolution, (outputs,
inputs) for a dense layer, (channels,) for biases and normalisation. A dense layer gets an image flattened channel by
channel.
"""

import math
from collections.abc import Callable, Mapping

from ddlbench.workers.common.layers import (
    AdaptiveAveragePool,
    BatchNorm,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    Layers,
    MaxPool,
    ReLU,
    Residual,
    Shape,
)

# From an image's shape (height, width, channels) and the number of classes to layers that map the image to its logits.
Describe = Callable[[Shape, int], Layers]
Block = Callable[[int, int, int], Layers]  # inputs, width, stride


def mlp(shape: Shape, classes: int) -> Layers:
    """Describe a fully connected network, 784-128-64-10 on 28x28x1 (zhao2016; MXNet's example network for MNIST)."""
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
    """Describe LeNet-5's first convolution and its dense layers, for 28x28 (zhao2016); more weights than conv2."""
    return (
        *(Conv(shape[2], 6, 5, padding=2), ReLU(), MaxPool(2, 2)),  # the padding makes 28x28 LeNet's 32x32
        Flatten(),
        *(Dense(6 * 14 * 14, 120), ReLU(), Dense(120, 84), ReLU(), Dense(84, classes)),
    )


def conv2(shape: Shape, classes: int) -> Layers:
    """Describe LeNet-5, for 28x28: C1 6@5x5, S2, C3 16@5x5, S4, dense (zhao2016, section III.B)."""
    return (
        *(Conv(shape[2], 6, 5, padding=2), ReLU(), MaxPool(2, 2)),
        *(Conv(6, 16, 5), ReLU(), MaxPool(2, 2)),
        Flatten(),
        *(Dense(16 * 5 * 5, 120), ReLU(), Dense(120, 84), ReLU(), Dense(84, classes)),
    )


def cnn(shape: Shape, classes: int) -> Layers:
    """Describe two convolutions with max-pooling, for 28x28; dense 500 from 800, dense 10 (pani2020, section III.B)."""
    return (
        *(Conv(shape[2], 20, 5), ReLU(), MaxPool(2, 2)),
        *(Conv(20, 50, 5), ReLU(), MaxPool(2, 2)),
        Flatten(),
        *(Dense(50 * 4 * 4, 500), ReLU(), Dense(500, classes)),
    )


def keras_sequential(shape: Shape, classes: int) -> Layers:
    """Describe three 3x3 convolutions of 32, 64 and 64 filters (anwar2021, section 6.1).

    The convolutions have 56,320 parameters on 32x32x3; the outputs add 650. On 28x28x1 it has 56,394 in all.
    """
    return (
        *(Conv(shape[2], 32, 3), ReLU(), MaxPool(2, 2)),
        *(Conv(32, 64, 3), ReLU(), MaxPool(2, 2)),
        *(Conv(64, 64, 3), ReLU()),
        *(AdaptiveAveragePool(1), Flatten(), Dense(64, classes)),
    )


def alexnet(shape: Shape, classes: int) -> Layers:
    """Describe AlexNet in one column (Krizhevsky, arXiv:1404.5997).

    Args:
        shape: of an image, (height, width, channels); height and width are 63 pixels or more.
        classes: how many outputs the last layer has.

    Returns:
        The layers in order; they map an image to `classes` logits.
    """
    return (
        *(Conv(shape[2], 64, 11, stride=4, padding=2), ReLU(), MaxPool(3, 2)),
        *(Conv(64, 192, 5, padding=2), ReLU(), MaxPool(3, 2)),
        *(Conv(192, 384, 3, padding=1), ReLU()),
        *(Conv(384, 256, 3, padding=1), ReLU()),
        *(Conv(256, 256, 3, padding=1), ReLU(), MaxPool(3, 2)),
        *(AdaptiveAveragePool(6), Flatten()),
        *(Dropout(0.5), Dense(256 * 6 * 6, 4096), ReLU()),
        *(Dropout(0.5), Dense(4096, 4096), ReLU()),
        Dense(4096, classes),
    )


def vgg(stages: tuple[int, ...]) -> Describe:
    """Make a VGG (Simonyan and Zisserman, arXiv:1409.1556).

    Args:
        stages: how many 3x3 convolutions come before each of the five poolings.

    Returns:
        A function from an image's shape (height, width, channels) and the number of classes to the layers in order.
    """

    def describe(shape: Shape, classes: int) -> Layers:
        layers: list[Layer] = []
        inputs = shape[2]
        for convolutions, channels in zip(stages, (64, 128, 256, 512, 512), strict=True):
            for _ in range(convolutions):
                layers += [Conv(inputs, channels, 3, padding=1, std=kept_std(channels, 3)), ReLU()]
                inputs = channels
            layers.append(MaxPool(2, 2))
        return (
            *layers,
            *(AdaptiveAveragePool(7), Flatten()),
            *(Dense(512 * 7 * 7, 4096, std=0.01), ReLU(), Dropout(0.5)),
            *(Dense(4096, 4096, std=0.01), ReLU(), Dropout(0.5)),
            Dense(4096, classes, std=0.01),
        )

    return describe


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


def kept_std(outputs: int, kernel: int) -> float:
    """Compute the spread of first weights with which gradients keep theirs (He et al., arXiv:1502.01852).

    Args:
        outputs: how many channels the convolution gives; a rectifier follows.
        kernel: side of the kernel in pixels.

    Returns:
        The standard deviation of the weights.
    """
    return math.sqrt(2 / (outputs * kernel**2))


ARCHITECTURES: Mapping[str, Describe] = {
    "mlp": mlp,
    "conv1": conv1,
    "conv2": conv2,
    "cnn": cnn,
    "keras_sequential": keras_sequential,
    "alexnet": alexnet,
    "vgg16": vgg((2, 2, 3, 3, 3)),
    "vgg19": vgg((2, 2, 4, 4, 4)),
    "resnet18": resnet(basic, 1, (2, 2, 2, 2)),
    "resnet50": resnet(bottleneck, 4, (3, 4, 6, 3)),
    "resnet152": resnet(bottleneck, 4, (3, 8, 36, 3)),
}
SMALL = ("mlp", "conv1", "conv2", "cnn", "keras_sequential")


def classes(name: str, shape: Shape) -> int:
    """Count the outputs of a model: ImageNet's 1000 where that gives the model its published size, else ten.

    If a data set has fewer classes, its labels are the first of the 1000.

    Args:
        name: of a model, a key of ARCHITECTURES.
        shape: of an image, (height, width, channels).

    Returns:
        The number of outputs.
    """
    return 10 if name in SMALL or shape == (28, 28, 1) else 1000


def layers(name: str, shape: Shape, *, dropout: bool = False) -> Layers:
    """Describe a model for images of a shape.

    Models are measured without dropout: N workers do not drop the same as one worker, and frameworks do not drop the
    same as each other, so only times could be compared. To times dropout adds little: some thousand multiplications
    an image.

    Args:
        name: a key of ARCHITECTURES.
        shape: of an image, (height, width, channels).
        dropout: keep the dropout layers.

    Returns:
        The layers in order; they map an image to its logits.
    """
    described = ARCHITECTURES[name](shape, classes(name, shape))
    return tuple(layer for layer in described if dropout or not isinstance(layer, Dropout))
