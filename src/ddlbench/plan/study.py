"""A study, its hosts, grids and figures, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from ddlbench.devices.device import Device
from ddlbench.devices.uneven import Jitter
from ddlbench.plan.point import Point
from ddlbench.plan.run import Run


@dataclass(frozen=True)
class Link:
    """One host's connection."""

    bandwidth_mbit: float
    latency_ms: float  # one way, on what the host sends
    loss_percent: float
    source: str

    @property
    def values(self) -> tuple[float, float, float]:
        """Its values, without their source."""
        return self.bandwidth_mbit, self.latency_ms, self.loss_percent


@dataclass(frozen=True)
class PointToPoint:
    """A probe: messages of all sizes between two hosts on one link, with a time dilation, by one transport."""

    link: str
    dilation: float
    transport: str

    @property
    def table(self) -> str:
        """Its table, below the folder of results."""
        return f"probes/point_to_point/{self.link}-k{self.dilation:g}-{self.transport}.csv"


@dataclass(frozen=True)
class Hosts:
    """Emulated hosts that are all alike."""

    count: int
    vcpus: int  # of each
    memory_gb: float  # of each
    device: Device | None = None  # what each replays, where compute is replayed
    uneven: Sequence[Mapping[str, Any]] = ()  # those that differ, as in the study's file
    jitter: Jitter | None = None
    devices: Mapping[str, Device] = field(default_factory=dict)  # of those, by name
    without_profile: Literal["refuse", "gap"] = "refuse"  # what becomes of points whose step no profile has


@dataclass(frozen=True)
class Grid:
    """A set of points that figures draw, grouped into runs."""

    study: str
    name: str
    runs: tuple[Run, ...]
    report: Mapping[str, int]  # epochs, and epoch_images or epoch_steps, for extrapolated times
    per_epoch: bool  # every epoch of a training is reported on its own

    @property
    def points(self) -> tuple[Point, ...]:
        """All its points, each once."""
        return tuple(point for run in self.runs for point in run.points)

    @property
    def reported(self) -> dict[str, int]:
        """What its manifests tell those who make tables of them."""
        return {**self.report, "per_epoch": self.per_epoch}


@dataclass(frozen=True)
class Fault:
    """A training during which members of its worker group are killed; once for each entry of `kill`."""

    name: str
    run: Run  # its only point is what is trained
    kill: tuple[int | str, ...]  # that many workers, or "server"
    at_step: int
    steps: int
    timeout_s: float  # after this time a framework stops waiting for a silent member, if it can do so

    @property
    def point(self) -> Point:
        """The point that is trained."""
        return self.run.points[0]

    @property
    def id(self) -> str:
        """Its study, its name there, and its point's id."""
        return f"{self.run.study}/{self.name}/{self.point.id}"

    @property
    def table(self) -> str:
        """Its table, below the folder of results."""
        return f"faults/{self.id}.csv"


def as_tuples(where: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Write the value or values of each key of a condition as a tuple.

    Args:
        where: key -> value or list of values, as in a study's file.

    Returns:
        key -> values.
    """
    return {key: tuple(value) if isinstance(value, list) else (value,) for key, value in where.items()}


@dataclass(frozen=True)
class Deviation:
    """One way in which figures differ from the paper's, in a sentence for their captions.

    Attributes:
        text: the sentence.
        where: column -> values; it is said if a point that was measured has one of the values of each.
        shows: columns; it is said only by figures that show one of them. Empty: by all.
    """

    text: str
    where: Mapping[str, tuple[Any, ...]]
    shows: tuple[str, ...]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Make it from an entry of a study's file.

        Args:
            given: the entry, checked before.

        Returns:
            The deviation.
        """
        return cls(given["text"], as_tuples(given.get("where", {})), tuple(given.get("shows", ())))


@dataclass(frozen=True)
class Figure:
    """A figure or table; its name is the target that makes it."""

    name: str
    study: str
    kind: str  # line, bar, table, probe, telemetry, models, faults or runtimes
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
    probes: tuple[PointToPoint, ...] = ()  # what a probe's figure shows, instead of grids
    faults: tuple[Fault, ...] = ()  # what a table of faults shows
    image_shape: str | None = None  # for which a figure of models counts them
    published: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # model -> the numbers in the paper
    deviations: tuple[Deviation, ...] = ()  # those of its study
    of_a_paper: bool = True  # otherwise `caption` speaks of the figure itself

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it is drawn from, below the folder of results."""
        if self.kind == "runtimes":
            return ("probes/runtimes.csv",)
        folder = "models" if self.published else "tables"
        own = (*(probe.table for probe in self.probes), *(fault.table for fault in self.faults))
        return own or (f"{folder}/{self.name}.csv",)

    def shows(self, point: Point) -> bool:
        """Say whether the figure shows a point of its grids.

        Args:
            point: of one of its grids.

        Returns:
            True if the point has one of the values for each key of `where`.
        """
        return all(point.shown(key) in values for key, values in self.where.items())


@dataclass(frozen=True)
class Study:
    """The experiments of a paper, or of none."""

    key: str
    title: str
    paper: Mapping[str, Any] | None
    hosts: Mapping[str, Hosts]
    grids: Mapping[str, Grid]
    figures: Mapping[str, Figure]
    faults: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)  # name -> one for each point
    without_points: tuple[str, ...] = ()  # its figures of which the configuration takes no point
