"""How much a model computes and sends, counted from its layers."""

import math
from dataclasses import dataclass
from functools import cache

from ddlbench.workers.common.memory import parameter_bytes
from ddlbench.workers.common.models.architectures import ARCHITECTURES, layers
from ddlbench.workers.common.models.layers import BatchNorm, Conv, Dense, Flatten, PassedLayer, passed


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
    found = list(passed(described, (height, width, channels)))
    return Workload(
        sum(map(_multiplications, found)) / 1e9,
        sum(math.prod(each.outputs) for each in found if not isinstance(each.layer, Flatten)) / 1e9,
        parameter_bytes(model, (height, width, channels)),
    )


def _multiplications(found: PassedLayer) -> int:
    """Of one image's forward pass."""
    match found.layer:
        case Conv(inputs) as convolution:
            return math.prod(found.outputs) * inputs * convolution.window
        case Dense(inputs, features):
            return inputs * features
        case BatchNorm():
            return math.prod(found.outputs)
    return 0
