"""A network for PyTorch that takes a device's time and computes nothing, with the parameters and gradients of a model.

Each layer has an autograd function whose backward pass takes the device's time for it and gives its parameter arrays no
gradient. Autograd runs the hooks of the arrays all the same, in the order in which it would in training. So what waits
there for gradients, DDP or Horovod, reduces the arrays that lie in memory when, and as, it would in training.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any

import numpy as np
import torch
from torch import nn

from ddlbench.protocol.messages import Shape
from ddlbench.workers.common.replay.arrays import check
from ddlbench.workers.common.replay.compute import ReplayedCompute
from ddlbench.workers.torch.models import MODELS


class Takes(torch.autograd.Function):
    """One layer in the backward pass: it takes its time, and the hooks of its parameter arrays run after it."""

    @staticmethod
    def forward(
        context: Any, token: torch.Tensor, places: range, network: "Network", *_: nn.Parameter
    ) -> torch.Tensor:
        context.places, context.network = places, network
        context.set_materialize_grads(False)
        return token.view_as(token)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        context.network.compute.backward(context.places)
        return gradients[0], None, None, *(None for _ in context.places)


class Network(nn.Module):
    """The parameters of a model, in a chain that takes the time of a step.

    All parameters are views of zeros that nobody writes, so they take no memory: workers can be many.

    Args:
        name: of the model, a key of MODELS.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, name: str, shape: Shape) -> None:
        super().__init__()
        with torch.device("meta"):
            layers = [[each.shape for each in layer] for layer in layers_with_parameters(MODELS[name](shape))]
        self.arrays = nn.ParameterList(nn.Parameter(each) for each in untouched([*chain(*layers)]))
        ends = list(accumulate(map(len, layers)))
        self.layers = [range(end - len(layer), end) for end, layer in zip(ends, layers, strict=True)]
        self.token = torch.zeros(1, requires_grad=True)
        self.compute = ReplayedCompute(len(self.arrays))

    @property
    def parameter_count(self) -> int:
        """How many parameters there are."""
        return sum(each.numel() for each in self.arrays)

    def forward(self) -> torch.Tensor:
        """Take the time of the forward pass; return what the backward pass begins with, (1,)."""
        self.compute.forward()
        token = self.token
        for places in self.layers:
            arrays = [self.arrays[place] for place in places]
            token = Takes.apply(token, places, self, *arrays)  # type: ignore[no-untyped-call]
        return token

    def check_gradients(self, mean: float, *, in_16_bits: bool = False) -> None:
        """Check that every gradient is the mean over the ranks.

        Args:
            mean: of what the ranks have filled theirs with.
            in_16_bits: they have been rounded to 16 bits in each step.

        Raises:
            RuntimeError: one is not.
        """
        ends = [ends_of(each.grad) for each in self.arrays if each.grad is not None]
        check("gradient", ends, mean, mean, in_16_bits=in_16_bits)

    def drop_gradients(self) -> None:
        """Let no parameter have a gradient."""
        for array in self.arrays:
            array.grad = None

    def fill_gradients(self, value: float | None) -> None:
        """Give every parameter a gradient.

        Args:
            value: of all its elements; None: zeros that take no memory until they are written.
        """
        if value is None:
            self.drop_gradients()  # the memory of earlier buckets is free now
            for array, zeros in zip(
                self.arrays, untouched([each.shape for each in self.arrays]), strict=True
            ):
                array.grad = zeros
        else:
            for array in self.arrays:
                assert array.grad is not None
                array.grad.fill_(value)


def layers_with_parameters(model: nn.Module) -> Iterator[list[nn.Parameter]]:
    """List the parameters of each layer that has some.

    Args:
        model: made of layers.

    Yields:
        The parameter arrays of a layer, in the order of `model.parameters()`.
    """
    for layer in model.modules():
        if arrays := list(layer.parameters(recurse=False)):
            yield arrays


def untouched(shapes: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
    """Make arrays of zeros which lie one after another in memory that is taken when it is written.

    It comes from the kernel: what malloc has used before would be filled with zeros, and so be taken at once.

    Args:
        shapes: of the arrays.

    Yields:
        Each array, float32.
    """
    sizes = [int(np.prod(shape)) for shape in shapes]
    memory = mmap(-1, sum(sizes) * torch.float32.itemsize, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    zeros = torch.frombuffer(memory, dtype=torch.float32)
    for shape, part in zip(shapes, zeros.split(sizes), strict=True):
        yield part.view(tuple(shape))


def ends_of(array: torch.Tensor) -> list[float]:
    """Read the first and the last element of an array.

    Args:
        array: of any shape, in one piece of memory.

    Returns:
        Both.
    """
    found: list[float] = array.detach().view(-1)[[0, -1]].tolist()
    return found
