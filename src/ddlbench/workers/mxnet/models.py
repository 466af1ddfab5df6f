"""The models of the studies in MXNet (Gluon), for images [n, c, h, w]."""

from collections.abc import Iterable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock, nn

from ddlbench.workers.common.architectures import layers
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


class Sum(HybridBlock):
    """A residual: the sum of what its body and its shortcut make of the same input."""

    def __init__(self, body: HybridBlock, shortcut: HybridBlock) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def hybrid_forward(self, F: Any, inputs: Any) -> Any:  # noqa: N803 - Gluon's name
        return self.body(inputs) + self.shortcut(inputs)


class AveragePoolTo(HybridBlock):
    """Adaptive average pooling, which Gluon has as an operator only."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def hybrid_forward(self, F: Any, images: Any) -> Any:  # noqa: N803 - Gluon's name
        return F.contrib.AdaptiveAvgPooling2D(images, output_size=self.size)


def build(name: str, shape: Shape, *, dropout: bool = False) -> HybridBlock:
    """Build a model, its weights zero; its trained parameters are in the canonical order.

    Args:
        name: a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
        dropout: keep the dropout layers.

    Returns:
        A block from images, (n, channels, height, width), to logits, (n, classes), in MXNet's current context.
    """
    model = sequence(layers(name, shape, dropout=dropout))
    model.initialize(mx.init.Zero())
    return model


def sequence(layers: Layers) -> HybridBlock:
    """Build layers one after another.

    Args:
        layers: of a model, or of a part of it.

    Returns:
        A block without parameters yet; arrays that it takes are (n, channels, height, width).
    """
    block = nn.HybridSequential()
    block.add(*map(part, layers))
    return block


def part(layer: Layer) -> HybridBlock:
    """Build a layer from Gluon's blocks.

    Args:
        layer: of a model.

    Returns:
        A block; images that it takes are (n, channels, height, width), vectors (n, features).
    """
    match layer:
        case Conv(inputs, outputs, kernel, stride, padding, bias):
            return nn.Conv2D(outputs, kernel, stride, padding, use_bias=bias, in_channels=inputs)
        case BatchNorm(channels, epsilon, momentum):
            return nn.BatchNorm(epsilon=epsilon, momentum=momentum, in_channels=channels)
        case ReLU():
            return nn.Activation("relu")
        case MaxPool(kernel, stride, padding):
            return nn.MaxPool2D(kernel, stride, padding)
        case AdaptiveAveragePool(size):
            return AveragePoolTo(size)
        case Flatten():
            return nn.Flatten()
        case Dense(inputs, outputs):
            return nn.Dense(outputs, in_units=inputs)
        case Dropout(rate):
            return nn.Dropout(rate)
        case Residual(body, shortcut):
            return Sum(sequence(body), sequence(shortcut))


def trained_parameters(model: HybridBlock) -> list[Any]:
    """Find a model's parameters that have a gradient.

    Args:
        model: initialised or not.

    Returns:
        Gluon's parameters in the canonical order and shapes.
    """
    return [each for each in model.collect_params().values() if each.grad_req != "null"]


def load(model: HybridBlock, arrays: Iterable[np.ndarray]) -> None:
    """Set a model's parameters, and reset its running statistics to those of a model that has seen no image.

    Args:
        model: initialised.
        arrays: its parameters in the canonical order and shapes, float32.
    """
    for parameter, array in zip(trained_parameters(model), arrays, strict=True):
        parameter.set_data(mx.nd.array(array))  # a new array, because oneDNN may have reordered the old one
    for name, parameter in model.collect_params(".*running_(mean|var)").items():
        fresh = mx.nd.ones if name.endswith("var") else mx.nd.zeros
        parameter.set_data(fresh(parameter.shape))


def dump(model: HybridBlock) -> list[np.ndarray]:
    """Copy a model's parameters to the host.

    Args:
        model: initialised.

    Returns:
        Its parameters in the canonical order and shapes, float32.
    """
    return [parameter.data(parameter.list_ctx()[0]).asnumpy() for parameter in trained_parameters(model)]
