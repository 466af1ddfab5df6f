"""One repetition: what the workers get of its point, and what its record takes from their reports."""

from collections.abc import Iterable, Sequence

from ddlbench.plan import Point
from ddlbench.protocol.messages import Concluded, ModelShape, Trained, TrainingPoint

_REPORTED = {  # what members report of their training, and whether it is a time on their host
    "train_loss": False,
    "forward_ms": True,
    "backward_ms": True,
    "communication_ms": True,
}


def training_point(point: Point) -> TrainingPoint:
    """Select the part of a point that workers need.

    Args:
        point: of the plan.

    Returns:
        Model, image shape (height, width, channels), data set, global batch size, learning rate and momentum.
    """
    return TrainingPoint(
        point.model,
        _shape(point.image_shape),
        point.dataset,
        point.batch_size,
        point.learning_rate,
        point.momentum,
    )


def model_shapes(points: Iterable[Point]) -> list[ModelShape]:
    """List the models of some points.

    Args:
        points: of the plan.

    Returns:
        Each pair of a model and an image shape (height, width, channels) once, sorted.
    """
    models = sorted({(point.model, point.image_shape) for point in points})
    return [ModelShape(model, _shape(shape)) for model, shape in models]


def step_times_ms(reports: Iterable[Trained]) -> list[list[float]]:
    """Collect the step times of each worker.

    Args:
        reports: of all members; a member reports the times of one worker, of several or of none.

    Returns:
        A list for each worker, in the order of the reports: the times of its steps in ms.
    """
    return [list(times) for report in reports for times in report.step_times_ms]


def metrics(
    reports: Sequence[Trained], ends: Iterable[Concluded], *, dilation: float, startup_s: float
) -> dict[str, float | None]:
    """Average what the ranks report of their training.

    Args:
        reports: of all members, after the last step.
        ends: the members' last replies; at most one has a test.
        dilation: by which times on the hosts are divided.
        startup_s: from the start of the group's first process until its last member was there.

    Returns:
        Means over the ranks that report them (losses; times in ms, as without dilation), the test's loss and accuracy
        in %, and `startup_s`. None for what no rank reports.
    """
    found: dict[str, float | None] = {}
    for name, is_time in _REPORTED.items():
        values = [value for report in reports if (value := getattr(report, name)) is not None]
        found[name] = _mean(values) / (dilation if is_time else 1) if values else None
    test = next((end.test for end in ends if end.test), None)
    return {
        **found,
        "test_loss": test.loss if test else None,
        "test_accuracy_percent": test.accuracy_percent if test else None,
        "startup_s": startup_s,
    }


def not_fitting(reason: str) -> dict[str, object]:
    """Make the part of a record that says that a point does not fit into the memory of its hosts.

    Args:
        reason: what does not fit into what, for a person.

    Returns:
        The keys of a record that a training would have filled, without values; the status is `does_not_fit`.
    """
    return {
        "status": "does_not_fit",
        "reason": reason,
        "step_times_ms": [],
        "metrics": {},
        "parameter_count": None,
        "parameters_sha256": [],
        "parameters_identical": None,
    }


def _shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    height, width, channels = shape
    return height, width, channels


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
