"""How workers fill hosts: why some numbers of workers are impossible, or some hosts of several workers."""

from collections.abc import Iterator, Mapping
from itertools import product

from ddlbench.configuration.schema import Problem
from ddlbench.errors import nearest
from ddlbench.plan.axis import Axes
from ddlbench.plan.study import Hosts

_HIERARCHICAL = "hierarchical_allreduce"


def mistakes(axes: Axes, hosts: Mapping[str, Hosts]) -> Iterator[Problem]:
    """List what is wrong with the workers and hosts of a grid.

    Args:
        axes: of the grid.
        hosts: the study's kinds of hosts, by name.

    Yields:
        Each mistake.
    """
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
        if host.vcpus % each and "real" in axes["compute"].values:
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
