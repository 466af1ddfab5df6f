"""Which points this machine's memory cannot hold, known before anything starts."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddlbench.datasets import synthetic
from ddlbench.launch.roles import WORKER, members, worker_of
from ddlbench.network.hosts import GIB
from ddlbench.plan import Plan, Point, Run
from ddlbench.plan.catalogue import BETWEEN_MACHINES, DATASETS, MODELS
from ddlbench.runs.placement import placement
from ddlbench.sweep.repetition import model_shapes
from ddlbench.workers.common.footprint.footprint import FOOTPRINTS, Training, process_bytes
from ddlbench.workers.common.footprint.step_memory import FLOAT_BYTES
from ddlbench.workers.common.memory import parameter_bytes

_WITH_TEST_IMAGES = 1.25
ERROR_PERCENT = 25  # of a prediction; benchmarks/memory.py judges it


@dataclass(frozen=True)
class Misfit:
    """A point that is predicted to need more memory than a host has.

    Attributes:
        point: of the run.
        run: of the plan.
        needs_bytes: predicted, of the host that needs most.
        has_bytes: of each host, or of each worker's part of it.
        is_reduced: the study's hosts could hold it; this machine has no more to give.
    """

    point: Point
    run: Run
    needs_bytes: int
    has_bytes: int
    is_reduced: bool

    @property
    def is_sure(self) -> bool:
        """Whether the point does not fit even if the prediction is too high by its error."""
        return self.needs_bytes > self.has_bytes * (1 + ERROR_PERCENT / 100)


def needed_bytes(run: Run, point: Point) -> int:
    """Predict the memory of the host, or the worker's part of a host, that needs most of it.

    Args:
        run: whose group also has the models of its other points.
        point: of the run.

    Returns:
        Bytes, of all processes of the worker group there. Of a server's own host, which has the memory of several
        parts, what it needs of each. Of a replayed point only parameters and gradients, which is the least: it makes no
        activations and reads no images.
    """
    if point.replay:
        return 2 * parameter_bytes(point.model, point.image_shape)
    shapes = tuple((each.model, each.image_shape) for each in model_shapes(run.points))
    training = Training(
        model=point.model,
        shape=point.image_shape,
        images=images_of_a_worker(point),
        workers=point.workers,
        models=shapes,
        has_momentum=point.momentum > 0,
        data_bytes=data_bytes(point),
    )
    hosts = _by_host(point.framework, point.strategy, training, point.workers, point.places)
    hosts[point.places - 1] //= point.last_place_is
    return max(hosts.values())


def least_bytes(
    framework: str, strategy: str, model: str, image_shape: str, images: int, *, has_server_host: bool
) -> float:
    """Predict the memory that a host needs at least, of what is known without a plan.

    Args:
        framework: any name, as the others; of a foreign table it may be none of ours.
        strategy: how gradients are added up.
        model: that is trained.
        image_shape: height x width x channels; empty: not known.
        images: of a worker, in a step.
        has_server_host: whether a server has a host of its own.

    Returns:
        Bytes without the data set, velocities and what a server holds of further workers, and less the prediction's
        error; 0: nobody knows.
    """
    is_ours = image_shape in MODELS.get(model, ()) and (worker_of(framework, strategy), WORKER) in FOOTPRINTS
    if not is_ours:
        return 0.0
    height, width, channels = map(int, image_shape.split("x"))
    shape = (height, width, channels)
    # Predictions are kept: rounded down to three binary digits, numbers of images are few, whatever is asked.
    digits = max(0, images.bit_length() - 3)
    training = Training(model, shape, images >> digits << digits, 1, ((model, shape),), False, 0)
    found = _by_host(framework, strategy, training, 1, 1 + has_server_host)
    return max(found.values()) / (1 + ERROR_PERCENT / 100)


def _by_host(framework: str, strategy: str, training: Training, workers: int, hosts: int) -> Counter[int]:
    """What the processes of a group need on each host."""
    found: Counter[int] = Counter()
    for member in members(framework, strategy, workers, hosts):
        found[member.host] += process_bytes(worker_of(framework, strategy), member.role, training)
    return found


def images_of_a_worker(point: Point) -> int:
    """Count the images of the largest share of a batch.

    Args:
        point: its batch size is that of all workers together.

    Returns:
        How many images.
    """
    return -(-point.batch_size // point.workers)


def data_bytes(point: Point) -> int:
    """Find how much a worker's data set takes, which is kept as numbers; one that is larger is read image by image.

    Args:
        point: its data set and image shape.

    Returns:
        Bytes, of training and test images.
    """
    dataset = DATASETS[point.dataset]
    if point.dataset == "synthetic":
        of_image = FLOAT_BYTES * math.prod(point.image_shape)
        images = sum(synthetic.image_counts(math.prod(point.image_shape)))
    elif dataset.training_images is None or point.dataset == "imagenet":
        return 0
    else:
        images = int(dataset.training_images * _WITH_TEST_IMAGES)
        stored = tuple(map(int, (dataset.image_shapes or ("",))[0].split("x")))
        of_image = math.prod(stored) * (FLOAT_BYTES if stored == tuple(point.image_shape) else 1)
    return images * of_image


def misfits(plan: Plan) -> Iterator[Misfit]:
    """Find the points that are predicted not to fit into the memory of this machine's hosts.

    Args:
        plan: all points; those on GPUs, or on the nodes of a cluster, are not looked at.

    Yields:
        A misfit for each such point of each run.
    """
    for run in plan.runs:
        measurable = [point for point in plan.measurable_points(run.id) if point.devices == "cpu"]
        if not measurable or measurable[0].fabric in BETWEEN_MACHINES:
            continue
        placed = placement(plan, run)
        for point in measurable:
            needs_bytes, has_bytes = needed_bytes(run, point), placed.hosts[0].memory_bytes
            if needs_bytes > has_bytes:
                of_study_bytes = point.memory_gb * GIB / point.workers_per_host
                yield Misfit(point, run, needs_bytes, has_bytes, needs_bytes <= of_study_bytes)


def too_large(plan: Plan) -> Iterator[str]:
    """Describe the points that do not fit into the memory of this machine's hosts.

    Args:
        plan: all points.

    Yields:
        A line for each study, framework and size of a host: how many points, what they need, what a host has.
    """
    groups: dict[tuple[str, str, bool, str], list[Misfit]] = {}
    for each in misfits(plan):
        groups.setdefault((each.run.study, each.point.framework, each.is_sure, _of_host(each)), []).append(
            each
        )
    for (study, framework, is_sure, host), found in groups.items():
        points = f"{len(found)} point{'s' * (len(found) > 1)} {'will' if is_sure else 'may'} not fit"
        yield f"{study}: {points}: {framework} needs about {_needs(found)}, and {host}"


def lacking_here(plan: Plan) -> dict[tuple[str, Point], str]:
    """Find the points that the study's hosts could hold, and this machine's cannot.

    Args:
        plan: all points.

    Returns:
        For each run and point the reason, the same for all points of a framework on hosts of a size.
    """
    reduced = [each for each in misfits(plan) if each.is_reduced]
    return {
        (each.run.id, each.point): f"memory: {each.point.framework} needs more, and {_of_host(each)}"
        for each in reduced
    }


def _of_host(misfit: Misfit) -> str:
    whose = "this machine's share" if misfit.is_reduced else "as the study's"
    point = misfit.point
    each = "hosts" if point.workers_per_host == 1 else "parts of hosts"
    which = "the host has" if point.places == 1 else f"each of {point.places} {each} has"
    return f"{which} {misfit.has_bytes / GIB:.3g} GB ({whose})"


def _needs(found: Sequence[Misfit]) -> str:
    """`6.44 to 9.38 GB (alexnet, vgg16 with 32 images a worker)`."""
    sizes = [f"{extreme(each.needs_bytes for each in found) / GIB:.3g}" for extreme in (min, max)]
    models: dict[int, dict[str, None]] = {}
    for each in found:
        models.setdefault(images_of_a_worker(each.point), {})[each.point.model] = None
    of_what = "; ".join(
        f"{', '.join(names)} with {images} images a worker" for images, names in models.items()
    )
    return f"{' to '.join(dict.fromkeys(sizes))} GB ({of_what})"
