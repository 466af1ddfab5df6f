"""The models of the studies, as data: their layers, the sizes of these, and the distribution of the first weights.

Every framework builds its models from this one description (`models.py` in its folder), and not from its own zoo. In
the zoos a ResNet has biases in its convolutions (Keras), has strides elsewhere (Gluon) or is missing (Keras has no
AlexNet and no ResNet-18), so the same name would send different numbers of bytes over the network. The reference for
the large models are torchvision's definitions. Where a zoo has the same model, a test gives it the same weights and
expects the same outputs.

The canonical order of parameters is that of the layers; branches follow each other, a residual's body before its
shortcut; weights come before biases. The canonical shapes are PyTorch's: (outputs, inputs, height, width) for a
convolution, (outputs, inputs) for a dense layer, (channels,) for biases and normalisation. A dense layer gets an image
flattened channel by channel.
"""

from collections.abc import Mapping

from ddlbench.workers.common.models.inception_network import inception_v3
from ddlbench.workers.common.models.layers import Describe, Dropout, Layers, Shape
from ddlbench.workers.common.models.plain_networks import alexnet, vgg
from ddlbench.workers.common.models.residual_networks import basic, bottleneck, resnet
from ddlbench.workers.common.models.small_networks import cnn, conv1, conv2, keras_sequential, mlp

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
    "resnet101": resnet(bottleneck, 4, (3, 4, 23, 3)),
    "resnet152": resnet(bottleneck, 4, (3, 8, 36, 3)),
    "inception_v3": inception_v3,
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
