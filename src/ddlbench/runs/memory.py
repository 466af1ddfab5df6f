"""Which points this machine's memory cannot hold, known before anything starts."""

from collections import Counter
from collections.abc import Iterator

from ddlbench.network.hosts import GIB
from ddlbench.plan import Plan, Point
from ddlbench.runs.placement import placement
from ddlbench.workers.common.memory import activation_bytes, parameter_bytes


def least_bytes(point: Point) -> int:
    """How much memory a worker of a point needs at least.

    Args:
        point: of the plan.

    Returns:
        The bytes of its parameters, their gradients, and what the forward pass makes of the largest share of a batch,
        which a replayed one does not make. A framework needs more.
    """
    shape = (point.image_shape[0], point.image_shape[1], point.image_shape[2])
    images = -(-point.batch_size // point.workers)
    activations = 0 if point.replay else activation_bytes(point.model, shape, images)
    return 2 * parameter_bytes(point.model, shape) + activations


def too_large(plan: Plan) -> Iterator[str]:
    """Find the points that do not fit into the memory of this machine's hosts.

    Args:
        plan: all points.

    Yields:
        A line for each study, model and share of a batch: how many points, what a worker needs, what a host has.
    """
    found: Counter[tuple[str, str]] = Counter()
    for run in plan.runs:
        placed = placement(plan, run)
        has_bytes = placed.hosts[0].memory_bytes
        whose = "this machine's share" if placed.memory_reduced else "the study's host"
        for point in run.points:
            needs_bytes = least_bytes(point)
            if plan.status(point).name == "measurable" and point.devices == "cpu" and needs_bytes > has_bytes:
                images = -(-point.batch_size // point.workers)
                need = f"{needs_bytes / GIB:.3g} GB at least for a worker with {images} images"
                has = f"a host has {has_bytes / GIB:.3g} GB ({whose})"
                found[run.study, f"{point.model} needs {need}, and {has}"] += 1
    for (study, why), count in found.items():
        yield f"{study}: {count} point{'s' * (count > 1)} will not fit: {why}"
