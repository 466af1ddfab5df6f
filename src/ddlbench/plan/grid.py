"""From a grid's axes to its points: all combinations, and why some are impossible.

Each value of an axis is checked once, not once for each point.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from ddlbench.configuration.schema import Path_, Problem
from ddlbench.devices.device import Device, NoProfile, Replay
from ddlbench.devices.uneven import uneven_of
from ddlbench.errors import nearest
from ddlbench.plan.axis import LINK_AXES, LINK_KEYS, Axes
from ddlbench.plan.catalogue import DATASETS, FRAMEWORKS, MODELS, default_image_shape, least_batch_per_worker
from ddlbench.plan.point import Inside, Point
from ddlbench.plan.sites import Sites
from ddlbench.plan.study import Hosts, Link
from ddlbench.workers.strategies import STRATEGIES, host_total

_HIERARCHICAL = "hierarchical_allreduce"
MOST_POINTS = 100_000  # of one grid; a larger one is refused


def problems(axes: Axes, hosts: Mapping[str, Hosts], file: str, path: Path_) -> Iterator[Problem]:
    """List the mistakes that make points of these axes impossible.

    Args:
        axes: of a grid or fault.
        hosts: the study's kinds of hosts, by name.
        file: that the grid is in, for messages.
        path: of the grid in the file.

    Yields:
        Each mistake. Values are checked only if no axis is missing and the grid is not too large.
    """
    batch = "batch_per_worker" if "batch_per_worker" in axes else "batch_size"
    missing = [key for key in ("hosts", "workers", "model", "dataset", batch) if key not in axes]
    most_processes = 0 if missing else max(axes["workers"].values) + _most_servers(axes)
    linked = most_processes > 1 and "emulated" in axes["fabric"].values
    if "sites" in axes:
        for key in sorted(LINK_AXES & axes.keys()):
            yield Problem(axes[key].file, axes[key].path, "cannot be given together with sites")
    if {"batch_size", "batch_per_worker"} <= axes.keys():
        yield Problem(
            axes["batch_size"].file, axes["batch_size"].path, "cannot be given together with batch_per_worker"
        )
    if "sites" not in axes and linked and "link" not in axes and any(key not in axes for key in LINK_KEYS):
        missing.append("link")
    for key in missing:
        yield Problem(file, (*path, key), "is missing, here and in the configuration's grids")
    if missing:
        return
    count = prod(len(axis.values) for axis in axes.values())
    if count > MOST_POINTS:
        yield Problem(file, path, f"a grid of {count:,} points (expected at most {MOST_POINTS:,})")
        return
    yield from _missing_strategies(axes)
    yield from _missing_devices(axes)
    yield from _unfilled_hosts(axes, hosts)
    yield from _too_small_batches(axes)
    yield from _wrong_images(axes)
    if (
        "synthetic" in axes["dataset"].values
        and None in axes["steps_per_epoch"].values
        and max(axes["epochs"].values)
    ):
        problem = "synthetic images have no end: an epoch of them needs steps_per_epoch"
        yield axes["epochs"].problem(max(axes["epochs"].values), problem)


def _most_servers(axes: Axes) -> int:
    return max(STRATEGIES[strategy].servers for strategy in axes["strategy"].values)


def _missing_strategies(axes: Axes) -> Iterator[Problem]:
    frameworks, strategies = (dict.fromkeys(axes[key].values) for key in ("framework", "strategy"))
    for framework, strategy in product(frameworks, strategies):
        if strategy not in (possible := FRAMEWORKS[framework].strategies):
            text = f"{framework} has no {strategy} (expected {' or '.join(possible)})"
            yield axes["strategy"].problem(strategy, text)


def _missing_devices(axes: Axes) -> Iterator[Problem]:
    frameworks, devices = (dict.fromkeys(axes[key].values) for key in ("framework", "devices"))
    for framework, device in product(frameworks, devices):
        if device not in (one := FRAMEWORKS[framework]).devices:
            others = ", ".join(name for name, other in FRAMEWORKS.items() if device in other.devices)
            text = (
                f"{framework} does not compute on {device}: {one.no_gpu} "
                f"(expected {' or '.join(one.devices)}; {device} with {others})"
            )
            yield axes["devices"].problem(device, text)


def _unfilled_hosts(axes: Axes, hosts: Mapping[str, Hosts]) -> Iterator[Problem]:
    """How workers do not fill hosts."""
    for name in dict.fromkeys(axes["hosts"].values):
        if name not in hosts:
            hint = nearest(name, hosts) or f" (expected one of {', '.join(hosts)})"
            yield axes["hosts"].problem(name, f"{name!r} is not a kind of hosts{hint}")
            continue
        yield from _too_many_workers(axes, name, hosts[name])
        yield from _shared_cores(axes, name, hosts[name])
    most = max(axes["workers_per_host"].values)
    if most > 1:
        yield from _half_filled(axes)
        yield from _nothing_inside(axes, most)
    elif _HIERARCHICAL in axes["strategy"].values:
        text = f"{_HIERARCHICAL} needs hosts of several workers (`workers_per_host`)"
        yield axes["strategy"].problem(_HIERARCHICAL, text)


def _too_many_workers(axes: Axes, name: str, host: Hosts) -> Iterator[Problem]:
    for workers, each in product(
        *(dict.fromkeys(axes[key].values) for key in ("workers", "workers_per_host"))
    ):
        if (needed := -(-workers // each)) > host.count:
            of_each = f" with {each} on each" if each > 1 else ""
            text = f"{workers} workers{of_each} need {needed} hosts, but hosts.{name} has {host.count}"
            yield axes["workers"].problem(workers, text)


def _shared_cores(axes: Axes, name: str, host: Hosts) -> Iterator[Problem]:
    for each in dict.fromkeys(axes["workers_per_host"].values):
        computes_here = "real" in axes["compute"].values or (host.device and host.device.kind == "cpu")
        if host.vcpus % each and computes_here:
            text = f"{each} workers cannot share the {host.vcpus} vcpus of hosts.{name} evenly"
            yield axes["workers_per_host"].problem(each, text)


def _half_filled(axes: Axes) -> Iterator[Problem]:
    for workers, each in product(
        *(dict.fromkeys(axes[key].values) for key in ("workers", "workers_per_host"))
    ):
        if workers > each and workers % each:
            text = f"{workers} workers do not fill hosts of {each} (expected at most {each}, or a multiple of it)"
            yield axes["workers"].problem(workers, text)


def _nothing_inside(axes: Axes, most: int) -> Iterator[Problem]:
    fabrics = axes["fabric"].values
    if "emulated" in fabrics and "inside" not in axes and max(axes["workers"].values) > 1:
        text = "several workers share a host, and `inside` does not say what connects them (pcie3-x16, for example)"
        yield axes["workers_per_host"].problem(most, text)
    if "loopback" in fabrics:
        text = "on the loopback there is no network card that workers could share (expected 1, or another fabric)"
        yield axes["workers_per_host"].problem(most, text)
    if "sites" in axes:
        text = "hosts on sites have one worker each"
        yield axes["workers_per_host"].problem(most, text)


def _too_small_batches(axes: Axes) -> Iterator[Problem]:
    models = dict.fromkeys(axes["model"].values)
    least, model = max(
        (least_batch_per_worker(model, shape), model) for model, shape in product(models, image_shapes(axes))
    )
    expected = "one image each" if least == 1 else f"{least} images each: {model} normalises over them"
    key = "batch_size" if "batch_size" in axes else "batch_per_worker"
    workers = max(axes["workers"].values) if key == "batch_size" else 1
    for batch in dict.fromkeys(axes[key].values):
        if batch < least * workers:
            whom = f"{workers} workers" if key == "batch_size" else "a worker"
            text = f"a batch of {batch} is too small for {whom} (expected at least {expected})"
            yield axes[key].problem(batch, text)


def image_shapes(axes: Axes) -> Iterable[str]:
    """List the shapes of the images of a grid's points.

    Args:
        axes: of the grid.

    Returns:
        Each shape once, as `224x224x3`: those that are given, or the data sets' own.
    """
    if "image_shape" in axes:
        return dict.fromkeys(axes["image_shape"].values)
    return dict.fromkeys(default_image_shape(dataset) for dataset in axes["dataset"].values)


def _wrong_images(axes: Axes) -> Iterator[Problem]:
    datasets = dict.fromkeys(axes["dataset"].values)
    given = dict.fromkeys(axes["image_shape"].values) if "image_shape" in axes else {}
    for dataset, shape in product(datasets, given):
        if shape not in (known := DATASETS[dataset].image_shapes or (shape,)):
            text = f"{dataset} has images of {' or '.join(known)}, not {shape}"
            yield axes["image_shape"].problem(shape, text)
    for model, shape in product(dict.fromkeys(axes["model"].values), image_shapes(axes)):
        if shape not in MODELS[model]:
            text = f"{model} does not take images of {shape} (expected {' or '.join(MODELS[model])})"
            yield axes["model"].problem(model, text)


def points(
    axes: Axes,
    hosts: Mapping[str, Hosts],
    links: Mapping[str, Link],
    sites: Mapping[str, Sites],
    seed: int,
) -> Iterator[Point]:
    """Make the points of all combinations.

    Args:
        axes: as `problems` accepts them.
        hosts: the study's kinds of hosts, by name.
        links: by name.
        sites: sets of sites, by name.
        seed: of all points.

    Yields:
        Each point; equal points can come more than once.
    """
    for values in product(*(axis.values for axis in axes.values())):
        yield _point(dict(zip(axes, values, strict=True)), hosts, links, sites, seed)


def _point(
    cell: dict[str, Any],
    hosts: Mapping[str, Hosts],
    links: Mapping[str, Link],
    sites: Mapping[str, Sites],
    seed: int,
) -> Point:
    host = hosts[cell.pop("hosts")]
    if "batch_per_worker" in cell:
        cell["batch_size"] = cell["workers"] * cell.pop("batch_per_worker")
    shape = cell.get("image_shape") or default_image_shape(cell["dataset"])
    link = links.get(cell.pop("link", ""))
    per_host, inside = cell["workers_per_host"], cell.pop("inside", None)
    total = host_total(cell["workers"], cell["strategy"], host.count, per_host)
    emulated = cell["fabric"] == "emulated"
    linked = total > 1 and emulated
    if emulated and inside and per_host > 1 and cell["workers"] > 1:
        cell["inside"] = Inside(inside, links[inside].bandwidth_mbit, links[inside].latency_ms)
    cell["sites"] = sites[cell["sites"]].of(total) if linked and "sites" in cell else None
    for key in LINK_KEYS:
        on_link = linked and cell["sites"] is None
        cell[key] = (cell[key] if key in cell else getattr(link, key)) if on_link else None
    cell["image_shape"] = tuple(map(int, shape.split("x")))
    if cell["compute"] == "replay" and host.device:
        share = -(-cell["batch_size"] // cell["workers"])
        step = cell["model"], cell["image_shape"], share
        cell["replay"] = _replay_or_gap(host.device, step, host.without_profile == "gap")
        if not cell["replay"].unknown:
            # The host of a server alone does real work, which is not slowed down.
            of_workers = -(-cell["workers"] // per_host)
            cell["uneven"] = uneven_of(host.uneven, host.jitter, host.devices, of_workers, step)
    return Point(host_count=host.count, vcpus=host.vcpus, memory_gb=host.memory_gb, seed=seed, **cell)


def _replay_or_gap(device: Device, step: tuple[str, tuple[int, ...], int], gap: bool) -> Replay:
    """What a worker replays; with `gap` one that says what is unknown, where no profile has the step."""
    model, (height, width, channels), batch = step
    try:
        return device.replay(model, (height, width, channels), batch)
    except NoProfile:
        if not gap:
            raise
        return device.unknown(model, (height, width, channels))
