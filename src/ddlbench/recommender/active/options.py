"""The options of a question: points of the plan."""

from collections.abc import Mapping

from ddlbench.errors import ConfigError, nearest
from ddlbench.plan import Plan, Point
from ddlbench.plan.axis import LINK_KEYS
from ddlbench.plan.settings import Recommend
from ddlbench.prediction.cell import Cell

ALIKE = (
    "model",
    "dataset",
    "image_shape",
    "batch_size",
    "devices",
    "runtime",
    "fabric",
    "vcpus",
    "memory_gb",
)


def options_of(plan: Plan, asked: Recommend | None) -> dict[Point, str]:
    """Find the points that a question leaves open.

    Args:
        plan: all settings.
        asked: the question; None: the configuration has none.

    Returns:
        The options, each with the id of a run that has it. Of points that differ only in how long they train, the
        shortest one.

    Raises:
        ConfigError: no point that fits can be measured, or those that fit differ in more than what is decided.
    """
    if asked is None:
        raise ConfigError("recommend: is missing: it says what recommend_measure decides (config/README.md)")
    runs: dict[Point, str] = {}
    for run in plan.runs:
        for point in run.points:
            if _is_told_by_a_cell(point) and _fits(point, asked.question):
                runs.setdefault(point, run.id)
    usable = sorted(
        (point for point in runs if plan.status(point).name == "measurable"), key=lambda point: point.epochs
    )
    if not usable:
        raise ConfigError(f"recommend: question: {_why_none(plan, asked.question)}")
    if "accuracy_percent" in asked.goal:
        usable = [point for point in usable if point.epochs]
        if not usable:
            raise ConfigError(
                "recommend: goal: accuracy_percent: no point of the question is trained to an accuracy (epochs)"
            )
    for key in ALIKE:
        _require_one(key, usable)
    for key in LINK_KEYS:
        _require_one(key, [point for point in usable if point.hosts > 1])
    chosen: dict[Cell, Point] = {}
    for point in usable:
        chosen.setdefault(cell_of(point), point)
    return {point: runs[point] for point in chosen.values()}


def cell_of(point: Point) -> Cell:
    """Write a point as far as it decides the time of a step.

    Args:
        point: with one link, or none.

    Returns:
        The cell, as it would be read from a table of that point.
    """
    return Cell(
        batch_size=float(point.batch_size),
        workers=point.workers,
        latency_ms=point.latency_ms or 0.0,
        bandwidth_mbit=point.bandwidth_mbit,
        loss_percent=point.loss_percent or 0.0,
        model=point.model,
        image_shape="x".join(map(str, point.image_shape)),
        framework=point.framework,
        strategy=point.strategy,
        devices=point.devices,
        runtime=point.runtime,
        vcpus=float(point.vcpus),
        host_count=point.host_count,
        memory_gb=float(point.memory_gb),
    )


def _is_told_by_a_cell(point: Point) -> bool:
    """Whether what is measured of it is learned from: `prediction.measured` leaves out others."""
    return point.sites is None and point.replay is None and point.workers_per_host == 1


def _fits(point: Point, question: Mapping[str, object]) -> bool:
    return all(
        (key in LINK_KEYS and point.hosts == 1) or getattr(point, key) == value
        for key, value in question.items()
    )


def _require_one(key: str, points: list[Point]) -> None:
    values = sorted({str(getattr(point, key)) for point in points})
    if len(values) > 1:
        raise ConfigError(
            f"recommend: question: leaves {key} open ({', '.join(values)}); say one, as  {key}: {values[0]}"
        )


def _why_none(plan: Plan, question: Mapping[str, object]) -> str:
    """The first value that no point has, with the nearest that one has."""
    points = [point for run in plan.runs for point in run.points]
    for key, value in question.items():
        known = {str(getattr(point, key)) for point in points if getattr(point, key) is not None}
        if points and not any(getattr(point, key) == value for point in points):
            return f"no point has {key} {value}{nearest(value, known)}; there are {', '.join(sorted(known))}"
    return "no point that can be measured here has all of these values"
