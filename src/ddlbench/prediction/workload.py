"""How much a model computes and sends, counted from its layers."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ddlbench.workers.common.architectures import ARCHITECTURES, layers
from ddlbench.workers.common.layers import (
    BatchNorm,
    Conv,
    Dense,
    Flatten,
    Layer,
    Layers,
    Residual,
    Shape,
    output_shape,
)
from ddlbench.workers.common.memory import parameter_bytes


@dataclass(frozen=True)
class Workload:
    """What a training step needs of a model.

    Attributes:
        giga_multiplications: multiplications of one image's forward pass, in 10^9.
        giga_outputs: numbers that all layers put out in one image's forward pass, in 10^9.
        parameter_bytes: what workers must agree on in a step.
    """

    giga_multiplications: float
    giga_outputs: float
    parameter_bytes: float


UNKNOWN = Workload(1e-3, 1e-5, 1e6)  # of a model that is none of ours; what was measured scales it


@cache
def workload(model: str, image_shape: str) -> Workload:
    """Count a model's multiplications and parameters.

    Args:
        model: a name of the catalogue; any other is unknown.
        image_shape: height x width x channels; empty or wrong: unknown.

    Returns:
        The counts; `UNKNOWN` if nobody can count them.
    """
    try:
        height, width, channels = map(int, image_shape.split("x"))
        described = layers(model, (height, width, channels)) if model in ARCHITECTURES else ()
    except ValueError:
        return UNKNOWN
    if not described:
        return UNKNOWN
    passed = list(_passed(described, (height, width, channels)))
    return Workload(
        sum(_multiplications(*each) for each in passed) / 1e9,
        sum(math.prod(outputs) for layer, outputs in passed if not isinstance(layer, Flatten)) / 1e9,
        parameter_bytes(model, (height, width, channels)),
    )


def _passed(parts: Layers, shape: Shape) -> Iterator[tuple[Layer, Shape]]:
    """The layers that an image passes, with the shapes of their outputs; a residual's sum comes after its parts."""
    for part in parts:
        if isinstance(part, Residual):
            yield from _passed(part.body, shape)
            yield from _passed(part.shortcut, shape)
        shape = output_shape(part, shape)
        yield part, shape


def _multiplications(layer: Layer, outputs: Shape) -> int:
    """Of one image's forward pass."""
    match layer:
        case Conv(inputs, _, kernel):
            return math.prod(outputs) * inputs * kernel**2
        case Dense(inputs, features):
            return inputs * features
        case BatchNorm():
            return math.prod(outputs)
    return 0
