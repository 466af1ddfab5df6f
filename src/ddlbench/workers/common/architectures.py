"""The models of the studies, as data: which layers, of which sizes, beginning with which weights.

Every framework builds its models from this one description (`torch_models`, `tensorflow_models`, `mxnet_models`), and
not from its own zoo: there, a ResNet has biases in its convolutions (Keras), strides elsewhere (Gluon) or is missing
(Keras has no AlexNet and no ResNet-18), so that the same name would put different bytes on the wire. The reference for
the large ones are torchvision's definitions. Where a zoo does have the same model, a test gives it the same weights and
expects the same outputs.

The canonical order of parameters is that of the layers, the body of a residual before its shortcut, weights before
biases. Their canonical shapes are PyTorch's: [outputs, inputs, height, width] of a convolution, [outputs, inputs] of a
dense layer, which sees an image flattened channel by channel.
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

Describe = Callable[[Shape, int], Layers]  # image shape, classes
Block = Callable[[int, int, int], Layers]  # inputs, width, stride


def mlp(shape: Shape, classes: int) -> Layers:
    """Fully connected, 784-128-64-10 on 28x28x1 (zhao2016; MXNet's example network for MNIST)."""
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
    """LeNet-5's first convolution and its dense layers: one convolution, more weights than conv2 (zhao2016)."""
    return (
        *(Conv(shape[2], 6, 5, padding=2), ReLU(), MaxPool(2, 2)),  # the padding makes 28x28 LeNet's 32x32
        Flatten(),
        *(Dense(6 * 14 * 14, 120), ReLU(), Dense(120, 84), ReLU(), Dense(84, classes)),
    )


def conv2(shape: Shape, classes: int) -> Layers:
    """LeNet-5: C1 6@5x5, S2, C3 16@5x5, S4, dense (zhao2016, section III.B)."""
    return (
        *(Conv(shape[2], 6, 5, padding=2), ReLU(), MaxPool(2, 2)),
        *(Conv(6, 16, 5), ReLU(), MaxPool(2, 2)),
        Flatten(),
        *(Dense(16 * 5 * 5, 120), ReLU(), Dense(120, 84), ReLU(), Dense(84, classes)),
    )


def cnn(shape: Shape, classes: int) -> Layers:
    """Two convolutions with max-pooling, flattened to 800, dense 500, dense 10 (pani2020, section III.B)."""
    return (
        *(Conv(shape[2], 20, 5), ReLU(), MaxPool(2, 2)),
        *(Conv(20, 50, 5), ReLU(), MaxPool(2, 2)),
        Flatten(),
        *(Dense(50 * 4 * 4, 500), ReLU(), Dense(500, classes)),
    )


def keras_sequential(shape: Shape, classes: int) -> Layers:
    """Three 3x3 convolutions of 32, 64 and 64 filters: 56,320 parameters on 32x32x3 (anwar2021, section 6.1).

    The average over what is left of the image and ten outputs add 650; on 28x28x1 it has 56,394 in all.
    """
    return (
        *(Conv(shape[2], 32, 3), ReLU(), MaxPool(2, 2)),
        *(Conv(32, 64, 3), ReLU(), MaxPool(2, 2)),
        *(Conv(64, 64, 3), ReLU()),
        *(AdaptiveAveragePool(1), Flatten(), Dense(64, classes)),
    )


def alexnet(shape: Shape, classes: int) -> Layers:
    """AlexNet in one column (Krizhevsky, arXiv:1404.5997), for images of 63 pixels or more a side."""
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
    """VGG of so many 3x3 convolutions before each pooling (Simonyan and Zisserman, arXiv:1409.1556)."""

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
    """ResNet of so many blocks at each of four sizes of the image (He et al., arXiv:1512.03385).

    expansion: channels that leave a block, relative to its width. Images smaller than ImageNet's meet the same layers,
    so that the bytes on the wire are the same; only for 28x28x1 the first kernel is 3x3, of one channel (pani2020).
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
    """ResNet's block of two convolutions."""
    return joined(
        inputs, width, stride, (*normed(inputs, width, 3, stride), ReLU(), *normed(width, width, 3))
    )


def bottleneck(inputs: int, width: int, stride: int) -> Layers:
    """ResNet's block of three convolutions, of which the middle one has the stride."""
    narrow = (*normed(inputs, width, 1), ReLU(), *normed(width, width, 3, stride), ReLU())
    return joined(inputs, 4 * width, stride, (*narrow, *normed(width, 4 * width, 1)))


def joined(inputs: int, outputs: int, stride: int, body: Layers) -> Layers:
    """A block's body and its shortcut, which is a convolution only where shapes differ."""
    shortcut = () if inputs == outputs and stride == 1 else normed(inputs, outputs, 1, stride)
    return Residual(body, shortcut), ReLU()


def normed(inputs: int, outputs: int, kernel: int, stride: int = 1) -> Layers:
    """A convolution that is normalised, and so needs no bias; at stride 1 the image keeps its size."""
    std = kept_std(outputs, kernel)
    return Conv(inputs, outputs, kernel, stride, kernel // 2, bias=False, std=std), BatchNorm(outputs)


def kept_std(outputs: int, kernel: int) -> float:
    """Spread of weights that keeps that of gradients, through a rectified convolution (He et al., arXiv:1502.01852)."""
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
    """Outputs of a model: ImageNet's thousand where that gives the model its published size, else ten.

    Labels of a data set with fewer classes are then the first of the thousand.
    """
    return 10 if name in SMALL or shape == (28, 28, 1) else 1000


def layers(name: str, shape: Shape, *, dropout: bool = False) -> Layers:
    """The model `name` for images of `shape`.

    Without dropout, as models are measured: what N workers drop is not what one worker drops, and no framework drops
    what another does, so that nothing could be compared but times. To those it would add little: some thousand
    multiplications an image.
    """
    described = ARCHITECTURES[name](shape, classes(name, shape))
    return tuple(layer for layer in described if dropout or not isinstance(layer, Dropout))
