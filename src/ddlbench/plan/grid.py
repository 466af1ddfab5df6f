"""From a grid's axes to its points: all combinations, and what makes a combination impossible.

Every axis value is checked once, not once for each point.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import product
from math import prod
from typing import Any

from ddlbench.errors import nearest
from ddlbench.plan.catalogue import DATASETS, MODELS, default_image_shape
from ddlbench.plan.point import Point
from ddlbench.plan.schema import Path_, Problem, Schema
from ddlbench.plan.study import Hosts, Link

MOST_POINTS = 100_000  # of one grid; more is a mistake
LINK_KEYS = ("bandwidth_mbit", "latency_ms", "loss_percent")
_TYPES = {field.name: field.type for field in fields(Point)}


@dataclass(frozen=True)
class Axis:
    """The values that a grid gives to one key, and the place in a file where it does."""

    values: tuple[Any, ...]
    listed: bool  # written as a list
    file: str
    path: Path_

    def problem(self, value: Any, text: str) -> Problem:
        """What is wrong with one of the values."""
        return Problem(self.file, (*self.path, self.values.index(value)) if self.listed else self.path, text)


Axes = Mapping[str, Axis]


def axes_of(keys: Mapping[str, Any], defaults: Schema, file: str, path: Path_) -> dict[str, Axis]:
    """Axes from a block of a configuration: the keys among `defaults`, the schema's axes."""
    given = ((key, value) for key, value in keys.items() if key in defaults)
    return {key: _axis(key, value, file, (*path, key)) for key, value in given}


def default_axes(schema: Schema, file: str, path: Path_) -> dict[str, Axis]:
    """Axes that a grid has without saying so; `schema` maps every key to what one value of it is."""
    return {
        key: _axis(key, one["default"], file, (*path, key)) for key, one in schema.items() if "default" in one
    }


def _axis(key: str, given: Any, file: str, path: Path_) -> Axis:
    values = given if isinstance(given, list) else [given]
    kind = str(_TYPES.get(key, ""))
    if "float" in kind:
        values = [float(value) for value in values]
    elif "int" in kind and key != "image_shape":
        values = [value if value is None else int(value) for value in values]
    return Axis(tuple(values), isinstance(given, list), file, path)


def problems(axes: Axes, hosts: Mapping[str, Hosts], file: str, path: Path_) -> Iterator[Problem]:
    """What makes points of these axes impossible; `file` and `path` say where the grid is."""
    missing = [key for key in ("hosts", "workers", "model", "dataset", "batch_size") if key not in axes]
    linked = (
        "emulated" in axes["fabric"].values and max(axes["workers"].values, default=1) > 1
        if not missing
        else False
    )
    if linked and "link" not in axes and any(key not in axes for key in LINK_KEYS):
        missing.append("link")
    for key in missing:
        yield Problem(file, (*path, key), "is missing, here and in the configuration's grids")
    if missing:
        return
    count = prod(len(axis.values) for axis in axes.values())
    if count > MOST_POINTS:
        yield Problem(file, path, f"a grid of {count:,} points (expected at most {MOST_POINTS:,})")
        return
    yield from _too_many_workers(axes, hosts)
    yield from _too_small_batches(axes)
    yield from _wrong_images(axes)
    if (
        "synthetic" in axes["dataset"].values
        and None in axes["steps_per_epoch"].values
        and max(axes["epochs"].values)
    ):
        problem = "synthetic images have no end: an epoch of them needs steps_per_epoch"
        yield axes["epochs"].problem(max(axes["epochs"].values), problem)


def _too_many_workers(axes: Axes, hosts: Mapping[str, Hosts]) -> Iterator[Problem]:
    for name in dict.fromkeys(axes["hosts"].values):
        if name not in hosts:
            hint = nearest(name, hosts) or f" (expected one of {', '.join(hosts)})"
            yield axes["hosts"].problem(name, f"{name!r} is not a kind of hosts{hint}")
            continue
        for workers in dict.fromkeys(axes["workers"].values):
            if workers > (count := hosts[name].count):
                text = f"{workers} workers need {workers} hosts, but hosts.{name} has {count}"
                yield axes["workers"].problem(workers, text)


def _too_small_batches(axes: Axes) -> Iterator[Problem]:
    most = max(axes["workers"].values)
    for batch in dict.fromkeys(axes["batch_size"].values):
        if batch < most:
            text = f"a batch of {batch} is too small for {most} workers (expected at least one image each)"
            yield axes["batch_size"].problem(batch, text)


def _wrong_images(axes: Axes) -> Iterator[Problem]:
    datasets = dict.fromkeys(axes["dataset"].values)
    given = dict.fromkeys(axes["image_shape"].values) if "image_shape" in axes else {}
    for dataset, shape in product(datasets, given):
        if shape != (DATASETS[dataset].image_shape or shape):
            text = f"{dataset} has images of {DATASETS[dataset].image_shape}, not {shape}"
            yield axes["image_shape"].problem(shape, text)
    shapes = given or dict.fromkeys(default_image_shape(dataset) for dataset in datasets)
    for model, shape in product(dict.fromkeys(axes["model"].values), shapes):
        if shape not in MODELS[model]:
            text = f"{model} does not take images of {shape} (expected {' or '.join(MODELS[model])})"
            yield axes["model"].problem(model, text)


def points(axes: Axes, hosts: Mapping[str, Hosts], links: Mapping[str, Link], seed: int) -> Iterator[Point]:
    """All combinations of axes that have no problems; equal ones may come more than once."""
    for values in product(*(axis.values for axis in axes.values())):
        yield _point(dict(zip(axes, values, strict=True)), hosts, links, seed)


def _point(cell: dict[str, Any], hosts: Mapping[str, Hosts], links: Mapping[str, Link], seed: int) -> Point:
    host = hosts[cell.pop("hosts")]
    shape = cell.get("image_shape") or default_image_shape(cell["dataset"])
    link = links.get(cell.pop("link", ""))
    linked = cell["workers"] > 1 and cell["fabric"] == "emulated"
    for key in LINK_KEYS:
        cell[key] = (cell[key] if key in cell else getattr(link, key)) if linked else None
    cell["image_shape"] = tuple(map(int, shape.split("x")))
    return Point(host_count=host.count, vcpus=host.vcpus, memory_gb=host.memory_gb, seed=seed, **cell)
