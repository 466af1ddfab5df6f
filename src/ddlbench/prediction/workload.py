"""How much a model computes and sends, counted from its layers."""

import math
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

BYTES_PER_PARAMETER = 4


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
    counted = _count(described, (height, width, channels))
    return Workload(
        counted.multiplications / 1e9, counted.outputs / 1e9, counted.parameters * BYTES_PER_PARAMETER
    )


@dataclass(frozen=True)
class _Counted:
    """Of one image's forward pass."""

    multiplications: float = 0.0
    outputs: float = 0.0
    parameters: float = 0.0

    def __add__(self, other: "_Counted") -> "_Counted":
        return _Counted(
            self.multiplications + other.multiplications,
            self.outputs + other.outputs,
            self.parameters + other.parameters,
        )


def _count(parts: Layers, shape: Shape) -> _Counted:
    found = _Counted()
    for part in parts:
        entered, shape = shape, output_shape(part, shape)
        found += _count_one(part, entered, shape)
    return found


def _count_one(part: Layer, entered: Shape, left: Shape) -> _Counted:
    outputs = float(math.prod(left))
    match part:
        case Conv(inputs, channels, kernel):
            weights = inputs * channels * kernel**2
            return _Counted(weights * left[0] * left[1], outputs, weights + (channels if part.bias else 0))
        case Dense(inputs, features):
            return _Counted(inputs * features, outputs, (inputs + 1) * features)
        case BatchNorm(channels):
            return _Counted(outputs, outputs, 2 * channels)
        case Residual(body, shortcut):
            return _count(body, entered) + _count(shortcut, entered) + _Counted(outputs=outputs)
        case Flatten():
            return _Counted()  # the same numbers, nowhere else
    return _Counted(outputs=outputs)
