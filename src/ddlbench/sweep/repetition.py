"""One repetition: what the workers get of its point, and what the record keeps of their reports."""

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
    """The part of a point that workers need."""
    return TrainingPoint(
        point.model,
        _shape(point.image_shape),
        point.dataset,
        point.batch_size,
        point.learning_rate,
        point.momentum,
    )


def model_shapes(points: Iterable[Point]) -> list[ModelShape]:
    """The models of some points, each once for each shape (height, width, channels) of its images."""
    models = sorted({(point.model, point.image_shape) for point in points})
    return [ModelShape(model, _shape(shape)) for model, shape in models]


def step_times_ms(reports: Iterable[Trained]) -> list[list[float]]:
    """The step times of each worker; a member reports those of one, of several or of none."""
    return [list(times) for report in reports for times in report.step_times_ms]


def metrics(
    reports: Sequence[Trained], ends: Iterable[Concluded], *, dilation: float, startup_s: float
) -> dict[str, float | None]:
    """What the ranks report, averaged over them; times as they would be without dilation."""
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
    """The part of the record of a point that does not fit into the memory of its hosts."""
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
