"""How a step's time is divided among the layers of a model: by their operations and by the bytes that they move.

A layer takes as long as the slower of the two: its operations at the device's peak, or its bytes at the rate of the
device's memory (the roofline model, Williams et al. 2009). Real kernels reach neither. So only the ratios between
layers are used; their sum is set to the step's time. A layer's backward pass has a product for the gradient of its
input and one for that of its weights; each is taken to cost as much as its forward pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ddlbench.workers.common.architectures import layers
from ddlbench.workers.common.layers import (
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    Layers,
    Residual,
    Shape,
    output_shape,
    parameters_of,
)

_FLOAT_BYTES = 4
_OPTIMIZER_PASSES = 3  # it reads gradients, and reads and writes parameters


@dataclass(frozen=True)
class Rates:
    """What a device does in a second at most: operations (10^12), and bytes to and from its memory (10^9)."""

    tflops: float
    memory_gbytes_per_s: float

    def cost(self, flops: float, moved_bytes: float) -> float:
        """Compute how long a kernel takes at least.

        Args:
            flops: its operations; a multiply-add is two.
            moved_bytes: what it reads and writes.

        Returns:
            Seconds.
        """
        return max(flops / (self.tflops * 1e12), moved_bytes / (self.memory_gbytes_per_s * 1e9))


@dataclass(frozen=True)
class Division:
    """The parts of a step, in ms.

    Attributes:
        forward_ms: the whole forward pass.
        backward_ms: the time before the gradient of each parameter array is ready, from the last array to the first.
        optimizer_ms: the update of all parameters.
    """

    forward_ms: float
    backward_ms: tuple[float, ...]
    optimizer_ms: float

    @property
    def step_ms(self) -> float:
        """The whole step."""
        return self.forward_ms + sum(self.backward_ms) + self.optimizer_ms


@dataclass(frozen=True)
class _Passed:
    """A layer that images pass: the shapes (height, width, channels) before and after it, and its parameter arrays."""

    layer: Layer
    inputs: Shape
    outputs: Shape

    @property
    def arrays(self) -> int:
        return len(parameters_of(self.layer))

    @property
    def parameters(self) -> int:
        return sum(map(prod, parameters_of(self.layer)))

    def forward(self, images: int, rates: Rates) -> float:
        flops = 0.0
        if isinstance(self.layer, Conv):
            flops = 2.0 * prod(self.outputs) * self.layer.inputs * self.layer.kernel**2
        elif isinstance(self.layer, Dense):
            flops = 2.0 * self.layer.inputs * self.layer.outputs
        values = images * (prod(self.inputs) + prod(self.outputs)) + self.parameters
        return rates.cost(images * flops, _FLOAT_BYTES * values)


def divided(name: str, shape: Shape, images: int, step_ms: float, rates: Rates) -> Division:
    """Divide the time of a step.

    Args:
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
        images: of the batch.
        step_ms: forward pass, backward pass and optimizer together.
        rates: of the device.

    Returns:
        Parts whose sum is `step_ms`.
    """
    passed = [each for each in _passed(layers(name, shape), shape) if not _is_free(each.layer)]
    forward = [each.forward(images, rates) for each in passed]
    first = next(number for number, each in enumerate(passed) if each.arrays)
    backward: list[float] = []
    so_far = 0.0
    for number, each in reversed(list(enumerate(passed))):
        products = 2 if number > first else 1  # nobody needs the gradient of the images
        so_far += products * forward[number]
        if each.arrays:
            backward += [so_far] + [0.0] * (each.arrays - 1)
            so_far = 0.0
    parameters = sum(each.parameters for each in passed)
    optimizer = rates.cost(0.0, _OPTIMIZER_PASSES * _FLOAT_BYTES * parameters)
    unit = step_ms / (sum(forward) + sum(backward) + optimizer)
    return Division(sum(forward) * unit, tuple(each * unit for each in backward), optimizer * unit)


def parameter_arrays(name: str, shape: Shape) -> int:
    """Count the parameter arrays of a model: weights and biases of a layer are two.

    Args:
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).

    Returns:
        How many there are.
    """
    return sum(each.arrays for each in _passed(layers(name, shape), shape))


def _is_free(layer: Layer) -> bool:
    """Whether a layer does nothing that takes time."""
    return isinstance(layer, Flatten | Dropout)


def _passed(layers: Layers, shape: Shape) -> Iterator[_Passed]:
    """The layers that an image of a shape passes, in the canonical order; a residual's sum comes after its parts."""
    for layer in layers:
        before, shape = shape, output_shape(layer, shape)
        if isinstance(layer, Residual):
            yield from _passed(layer.body, before)
            yield from _passed(layer.shortcut, before)
            before = (shape[0], shape[1], 2 * shape[2])  # the sum reads both
        yield _Passed(layer, before, shape)
