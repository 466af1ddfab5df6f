"""How much a model computes and sends, counted from its layers."""

from dataclasses import dataclass
from functools import cache

from ddlbench.workers.common.architectures import ARCHITECTURES, layers
from ddlbench.workers.common.layers import BatchNorm, Conv, Dense, Layers, Residual, Shape, output_shape

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
    multiplications, parameters = _count(described, (height, width, channels))
    return Workload(multiplications / 1e9, parameters * BYTES_PER_PARAMETER)


def _count(parts: Layers, shape: Shape) -> tuple[float, float]:
    """Multiplications of one image, and parameters."""
    multiplications = parameters = 0.0
    for part in parts:
        entered, shape = shape, output_shape(part, shape)
        if isinstance(part, Conv):
            weights = part.inputs * part.outputs * part.kernel**2
            multiplications += weights * shape[0] * shape[1]
            parameters += weights + (part.outputs if part.bias else 0)
        elif isinstance(part, Dense):
            multiplications += part.inputs * part.outputs
            parameters += (part.inputs + 1) * part.outputs
        elif isinstance(part, BatchNorm):
            multiplications += part.channels * shape[0] * shape[1]
            parameters += 2 * part.channels
        elif isinstance(part, Residual):
            body, shortcut = _count(part.body, entered), _count(part.shortcut, entered)
            multiplications += body[0] + shortcut[0]
            parameters += body[1] + shortcut[1]
    return multiplications, parameters
