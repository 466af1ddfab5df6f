"""How much a model computes and sends, counted from its layers."""

import math
from dataclasses import dataclass
from functools import cache

from ddlbench.workers.common.architectures import ARCHITECTURES, layers
from ddlbench.workers.common.layers import (
    AdaptiveAveragePool,
    BatchNorm,
    Conv,
    Dense,
    Layers,
    MaxPool,
    Residual,
)

BYTES_PER_PARAMETER = 4


@dataclass(frozen=True)
class Workload:
    """What a training step needs of a model.

    Attributes:
        giga_multiplications: multiplications of one image's forward pass, in 10^9.
        parameter_bytes: what workers must agree on in a step.
    """

    giga_multiplications: float
    parameter_bytes: float


UNKNOWN = Workload(1e-3, 1e6)  # of a model that is none of ours; what was measured scales it


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
    multiplications, parameters, _ = _count(described, height, width)
    return Workload(multiplications / 1e9, parameters * BYTES_PER_PARAMETER)


def _count(parts: Layers, height: int, width: int) -> tuple[float, float, tuple[int, int]]:
    """Multiplications of one image, parameters, and the size of what comes out."""
    multiplications = parameters = 0.0
    for part in parts:
        if isinstance(part, Conv):
            height, width = (
                _shrunk(size, part.kernel, part.stride, part.padding) for size in (height, width)
            )
            weights = part.inputs * part.outputs * part.kernel**2
            multiplications += weights * height * width
            parameters += weights + (part.outputs if part.bias else 0)
        elif isinstance(part, Dense):
            multiplications += part.inputs * part.outputs
            parameters += (part.inputs + 1) * part.outputs
        elif isinstance(part, BatchNorm):
            multiplications += part.channels * height * width
            parameters += 2 * part.channels
        elif isinstance(part, MaxPool):
            height, width = (
                _shrunk(size, part.kernel, part.stride, part.padding) for size in (height, width)
            )
        elif isinstance(part, AdaptiveAveragePool):
            height = width = part.size
        elif isinstance(part, Residual):
            body, shortcut = _count(part.body, height, width), _count(part.shortcut, height, width)
            multiplications += body[0] + shortcut[0]
            parameters += body[1] + shortcut[1]
            height, width = body[2]
    return multiplications, parameters, (height, width)


def _shrunk(size: int, kernel: int, stride: int, padding: int) -> int:
    return math.floor((size + 2 * padding - kernel) / stride) + 1
