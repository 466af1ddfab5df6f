"""One repetition: what the workers get of its point, and what its record takes from their reports."""

from collections.abc import Iterable, Sequence

from ddlbench.plan import Point
from ddlbench.protocol.messages import Concluded, ModelShape, ReplayedStep, Trained, TrainingPoint
from ddlbench.sweep.steps import joined_times_ms

_TIMES = (
    "forward_ms",
    "backward_ms",
    "communication_ms",
)  # what members report of a step, means over their steps


def training_point(point: Point) -> TrainingPoint:
    """Select the part of a point that workers need.

    Args:
        point: of the plan.

    Returns:
        Model, image shape (height, width, channels), data set, global batch size, learning rate and momentum; and what
        is replayed, if compute is.
    """
    replay = point.replay
    return TrainingPoint(
        point.model,
        _shape(point.image_shape),
        point.dataset,
        point.batch_size,
        point.learning_rate,
        point.momentum,
        ReplayedStep(replay.kind, replay.forward_ms, replay.backward_ms, replay.optimizer_ms)
        if replay
        else None,
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


def trained(
    parts: Sequence[Sequence[Trained]], ends: Sequence[Concluded], *, dilation: float, startup_s: float
) -> dict[str, object]:
    """Make the part of a record that says what a training took and led to.

    Args:
        parts: the reports of all members, for each part of the steps.
        ends: the members' last replies; at most one has a test.
        dilation: by which times on the hosts are divided.
        startup_s: from the start of the group's first process until its last member was there.

    Returns:
        The step times in ms (dilated) of each worker, the hashes of the parameters, and the metrics: means over the
        ranks that report them (times in ms, as without dilation; the loss of the last part), the test's loss and
        accuracy in %, and `startup_s`; None for what no rank reports.
    """
    hashes = [end.parameters_sha256 for end in ends if end.parameters_sha256]
    test = next((end.test for end in ends if end.test), None)
    return {
        "status": "measured",
        "reason": None,
        "step_times_ms": joined_times_ms(parts),
        "metrics": {
            "train_loss": _mean_of("train_loss", parts[-1:]),
            **{key: None if (time := _mean_of(key, parts)) is None else time / dilation for key in _TIMES},
            "test_loss": test.loss if test else None,
            "test_accuracy_percent": test.accuracy_percent if test else None,
            "startup_s": startup_s,
        },
        "parameters_sha256": hashes,
        "parameters_identical": len(set(hashes)) == 1 if hashes else None,
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


def _mean_of(key: str, parts: Sequence[Sequence[Trained]]) -> float | None:
    """The mean of what members report, over members and parts; a longer part counts as much more."""
    found = [
        (value, len(next(iter(report.step_times_ms), ())) or 1)
        for part in parts
        for report in part
        if (value := getattr(report, key)) is not None
    ]
    return sum(value * steps for value, steps in found) / sum(steps for _, steps in found) if found else None
