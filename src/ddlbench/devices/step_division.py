"""How a step's time is divided among the layers of a model: by their operations and by the bytes that they move.

A layer takes as long as the slower of the two: its operations at the device's peak, or its bytes at the rate of the
device's memory (the roofline model, Williams et al. 2009). Real kernels reach neither. So only the ratios between
layers are used; their sum is set to the step's time. A layer's backward pass has a product for the gradient of its
input and one for that of its weights; each is taken to cost as much as its forward pass.
"""

from dataclasses import dataclass
from math import prod

from ddlbench.workers.common.models.architectures import layers
from ddlbench.workers.common.models.layers import (
    Conv,
    Dense,
    Dropout,
    Flatten,
    PassedLayer,
    Shape,
    flat,
    parameter_count,
    parameters_of,
    passed,
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
    costly = [
        each for each in passed(layers(name, shape), shape) if not isinstance(each.layer, Flatten | Dropout)
    ]
    forward = [_forward(each, images, rates) for each in costly]
    arrays = [len(parameters_of(each.layer)) for each in costly]
    first = next(number for number, count in enumerate(arrays) if count)
    backward: list[float] = []
    so_far = 0.0
    for number in reversed(range(len(costly))):
        products = 2 if number > first else 1  # nobody needs the gradient of the images
        so_far += products * forward[number]
        if arrays[number]:
            backward += [so_far] + [0.0] * (arrays[number] - 1)
            so_far = 0.0
    parameters = sum(parameter_count(each.layer) for each in costly)
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
    return sum(len(parameters_of(layer)) for layer in flat(layers(name, shape)))


def _forward(found: PassedLayer, images: int, rates: Rates) -> float:
    """What the forward pass of a layer takes at least, in seconds."""
    layer, flops = found.layer, 0.0
    if isinstance(layer, Conv):
        flops = 2.0 * prod(found.outputs) * layer.inputs * layer.window
    elif isinstance(layer, Dense):
        flops = 2.0 * layer.inputs * layer.outputs
    values = images * (prod(found.inputs) + prod(found.outputs)) + parameter_count(layer)
    return rates.cost(images * flops, _FLOAT_BYTES * values)
