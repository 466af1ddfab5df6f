"""A study, its hosts, grids and figures, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddlbench.plan.point import Point
from ddlbench.plan.run import Run


@dataclass(frozen=True)
class Link:
    """One host's connection."""

    bandwidth_mbit: float
    latency_ms: float  # one way, on what the host sends
    loss_percent: float
    source: str


@dataclass(frozen=True)
class Hosts:
    """Emulated hosts that are all alike."""

    count: int
    vcpus: int  # of each
    memory_gb: float  # of each


@dataclass(frozen=True)
class Grid:
    """A set of points that figures draw, grouped into runs."""

    study: str
    name: str
    runs: tuple[Run, ...]
    report: Mapping[str, int]  # epochs, and epoch_images or epoch_steps: what extrapolated times stand for
    per_epoch: bool  # every epoch of a training is reported on its own

    @property
    def points(self) -> tuple[Point, ...]:
        """All its points, each once."""
        return tuple(point for run in self.runs for point in run.points)


@dataclass(frozen=True)
class Figure:
    """A figure or table; its name is the target that makes it."""

    name: str
    study: str
    kind: str  # line, bar or table
    grids: tuple[str, ...]
    title: str
    x: str
    y: str
    lines: str | None
    columns: tuple[str, ...]  # of a table
    where: Mapping[str, tuple[Any, ...]]  # point key -> the values that it shows
    x_scale: str
    y_scale: str
    category: str
    caption: str
    per_epoch: bool

    def shows(self, point: Point) -> bool:
        """Whether a point of its grids belongs to it."""
        return all(getattr(point, key) in values for key, values in self.where.items())


@dataclass(frozen=True)
class Study:
    """One paper's experiments."""

    key: str
    title: str
    paper: Mapping[str, Any]
    hosts: Mapping[str, Hosts]
    grids: Mapping[str, Grid]
    figures: Mapping[str, Figure]
