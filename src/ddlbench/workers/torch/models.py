"""The models of the studies in PyTorch. `MODELS` maps a model's name to how it is made for an image shape (h, w, c)."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
import torch
from torch import nn

from ddlbench.workers.common.models.architectures import ARCHITECTURES, layers
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


class Sum(nn.Module):
    """A residual: the sum of what its body and its shortcut make of the same input."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.body(inputs) + self.shortcut(inputs)


class Concatenated(nn.Module):
    """What branches make of the same input, channels after channels."""

    def __init__(self, branches: Iterable[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(inputs) for branch in self.branches], dim=1)


def build(name: str, shape: Shape, *, dropout: bool = False) -> nn.Module:
    """Build a model; its parameters are in the canonical order.

    Args:
        name: a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
        dropout: keep the dropout layers.

    Returns:
        A module from images, (n, channels, height, width), to logits, (n, classes).
    """
    return sequence(layers(name, shape, dropout=dropout))


MODELS: Mapping[str, Callable[[Shape], nn.Module]] = {name: partial(build, name) for name in ARCHITECTURES}


def sequence(layers: Layers) -> nn.Module:
    """Build layers one after another.

    Args:
        layers: of a model, or of a part of it.

    Returns:
        A module; arrays that it takes are (n, channels, height, width).
    """
    return nn.Sequential(*map(module, layers))


def module(layer: Layer) -> nn.Module:
    """Build a layer from PyTorch's modules.

    Args:
        layer: of a model.

    Returns:
        A module; images that it takes are (n, channels, height, width), vectors (n, features).
    """
    match layer:
        case Conv(inputs, outputs, kernel, stride, padding, bias):
            return nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=bias)
        case BatchNorm(channels, epsilon, momentum):
            return nn.BatchNorm2d(channels, epsilon, 1 - momentum)
        case ReLU():
            return nn.ReLU()
        case MaxPool(kernel, stride, padding):
            return nn.MaxPool2d(kernel, stride, padding)
        case AveragePool(kernel, stride, padding):
            return nn.AvgPool2d(kernel, stride, padding)
        case AdaptiveAveragePool(size):
            return nn.AdaptiveAvgPool2d(size)
        case Flatten():
            return nn.Flatten()
        case Dense(inputs, outputs):
            return nn.Linear(inputs, outputs)
        case Dropout(rate):
            return nn.Dropout(rate)
        case Residual(body, shortcut):
            return Sum(sequence(body), sequence(shortcut))
        case Concat(branches):
            return Concatenated(map(sequence, branches))


@torch.no_grad()
def load(model: nn.Module, arrays: Iterable[np.ndarray]) -> None:
    """Set a model's parameters, and reset its running statistics to those of a model that has seen no image.

    Args:
        model: in training or not.
        arrays: its parameters in the canonical order and shapes, float32.
    """
    for parameter, array in zip(model.parameters(), arrays, strict=True):
        parameter.copy_(torch.from_numpy(array))
    for each in model.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.reset_running_stats()


def dump(model: nn.Module) -> list[np.ndarray]:
    """Get a model's parameters as arrays on the host.

    Args:
        model: on a CPU the arrays share its memory, on a GPU they are copies.

    Returns:
        Its parameters in the canonical order and shapes, float32.
    """
    return [parameter.detach().cpu().numpy() for parameter in model.parameters()]
