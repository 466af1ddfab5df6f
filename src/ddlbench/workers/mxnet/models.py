"""The models of the studies in MXNet (Gluon), for images (batch, channels, height, width)."""

from collections.abc import Iterable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock, nn

from ddlbench.workers.common.models.architectures import layers
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
    Residual,
    Shape,
)


class Sum(HybridBlock):
    """A residual block: the sum of its body's and its shortcut's output for the same input."""

    def __init__(self, body: HybridBlock, shortcut: HybridBlock) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def hybrid_forward(self, F: Any, inputs: Any) -> Any:  # noqa: N803 - Gluon's name
        return self.body(inputs) + self.shortcut(inputs)


class Concatenated(HybridBlock):
    """What branches make of the same input, channels after channels."""

    def __init__(self, branches: Iterable[HybridBlock]) -> None:
        super().__init__()
        self.branches = list(branches)
        for branch in self.branches:
            self.register_child(branch)

    def hybrid_forward(self, F: Any, inputs: Any) -> Any:  # noqa: N803 - Gluon's name
        return F.concat(*(branch(inputs) for branch in self.branches), dim=1)


class AveragePoolTo(HybridBlock):
    """Adaptive average pooling to (batch, channels, size, size), which Gluon has as an operator only."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def hybrid_forward(self, F: Any, images: Any) -> Any:  # noqa: N803 - Gluon's name
        return F.contrib.AdaptiveAvgPooling2D(images, output_size=self.size)


def build(name: str, shape: Shape) -> HybridBlock:
    """Build a model with weights that are zero.

    Args:
        name: Of a model in `architectures`.
        shape: Of an image: height, width, channels.

    Returns:
        A network from images (batch, channels, height, width) to logits (batch, classes). Its trained parameters are in
        the canonical order and axes.
    """
    model = sequence(layers(name, shape))
    model.initialize(mx.init.Zero())
    return model


def sequence(layers: Layers) -> HybridBlock:
    """Translate layers into one Gluon block.

    Args:
        layers: In the order in which data passes them.

    Returns:
        A block whose parameters have shapes, but no memory yet.
    """
    block = nn.HybridSequential()
    block.add(*map(part, layers))
    return block


def part(layer: Layer) -> HybridBlock:
    """Translate one layer into a Gluon block.

    Args:
        layer: From the framework-independent description.

    Returns:
        A block whose parameters have shapes, but no memory yet.
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
        case AveragePool(kernel, stride, padding):
            return nn.AvgPool2D(kernel, stride, padding)
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
        case Concat(branches):
            return Concatenated(map(sequence, branches))


def trained_parameters(model: HybridBlock) -> list[Any]:
    """List a model's parameters that have a gradient.

    Args:
        model: Of `build` or `sequence`.

    Returns:
        Gluon parameters in the canonical order, without running statistics.
    """
    return [each for each in model.collect_params().values() if each.grad_req != "null"]


def load(model: HybridBlock, arrays: Iterable[np.ndarray]) -> None:
    """Set a model's parameters, and reset the running statistics of batch normalisation to mean 0 and variance 1.

    Args:
        model: Of `build`.
        arrays: One for each trained parameter, in the canonical order and axes.
    """
    for parameter, array in zip(trained_parameters(model), arrays, strict=True):
        parameter.set_data(mx.nd.array(array))  # a new array, as oneDNN may have reordered the old one
    for name, parameter in model.collect_params(".*running_(mean|var)").items():
        fresh = mx.nd.ones if name.endswith("var") else mx.nd.zeros
        parameter.set_data(fresh(parameter.shape))


def dump(model: HybridBlock) -> list[np.ndarray]:
    """Copy a model's parameters.

    Args:
        model: Of `build`.

    Returns:
        One array for each trained parameter, in the canonical order and axes.
    """
    return [parameter.data(parameter.list_ctx()[0]).asnumpy() for parameter in trained_parameters(model)]
