"""The configuration as the plan holds it: a class for each block. The schema describes their keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from ddlbench.protocol.codec import read
from ddlbench.protocol.measure import Measure, StopRule
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.protocol.tolerances import Tolerances


@dataclass(frozen=True)
class Telemetry:
    """Whether and how often hosts are sampled."""

    enabled: bool
    hertz: float


@dataclass(frozen=True)
class DatasetSource:
    """Where a data set comes from: a folder, or if that is None, an address."""

    folder: str | None = None
    url: str | None = None


@dataclass(frozen=True)
class Datasets:
    """The sources of data sets that are not made here."""

    mnist: DatasetSource
    cifar10: DatasetSource
    imagenet: DatasetSource

    def source(self, name: str) -> DatasetSource:
        """Find where a data set comes from.

        Args:
            name: a key of the catalogue's DATASETS.

        Returns:
            Its source; an empty one if it is made here.
        """
        sources = {"mnist": self.mnist, "cifar10": self.cifar10, "imagenet": self.imagenet}
        return sources.get(name, DatasetSource())


@dataclass(frozen=True)
class Environment:
    """A framework's environment: the file of its locked requirements."""

    requirements: str


Request = Mapping[str, int | str]  # a key of the configuration's `cluster` -> what SLURM is asked for


@dataclass(frozen=True)
class Cluster:
    """Resources that SLURM is asked for besides those that hosts have, by study and by figure."""

    studies: Mapping[str, Request] = field(default_factory=dict)
    figures: Mapping[str, Request] = field(default_factory=dict)


@dataclass(frozen=True)
class Containers:
    """The base of the images that are built."""

    base: str


@dataclass(frozen=True)
class PointToPointProbes:
    """Messages between two hosts: each link by each transport."""

    links: Sequence[str]
    transports: Sequence[str]
    largest_bytes: int


@dataclass(frozen=True)
class CollectiveProbes:
    """Collectives on each link, among each number of hosts."""

    links: Sequence[str]
    hosts: Sequence[int]
    transport: str
    sizes_bytes: Sequence[int]


@dataclass(frozen=True)
class Replaying:
    """How far time is dilated where compute is replayed by waiting.

    Attributes:
        own_work_percent: the share of all cores that moving the bytes of a step may take, at most.
    """

    own_work_percent: float


@dataclass(frozen=True)
class Recommend:
    """What `recommend_measure` decides, and when it stops.

    Attributes:
        question: key of points -> value; the points that have these are the options.
        sureness_percent: the probability of being the best at which a choice is certain enough.
        budget_points: measurements of options at most, also of the same one again.
        budget_min: minutes after which no other one is begun.
        goal: what is wanted of the training, as a question over HTTP says it; empty: the shortest step.
    """

    question: Mapping[str, str | int | float]
    sureness_percent: float
    budget_points: int
    budget_min: float
    goal: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Probes:
    """Probes of links; a faster link than `shaped_mbit` is probed in dilated time."""

    measure: StopRule
    shaped_mbit: float
    netpipe: bool
    point_to_point: PointToPointProbes
    collectives: CollectiveProbes


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A configuration that its schema accepts.

    `grids` are the changes to the studies' grids, which the plan holds expanded. `results` is the folder of the results
    of all configurations, and `name` tells this one from others; that of the default configuration is empty.
    """

    fresh: bool
    results: str
    name: str = ""
    results_outside: bool = False
    measure: Measure
    other_measurements: Literal["wait", "refuse", "ignore"]
    dilation: float | Literal["auto"]
    replay: Replaying
    timeouts: Timeouts
    tolerances: Tolerances
    interfaces: Mapping[str, str | None]
    telemetry: Telemetry
    datasets: Datasets
    environments: Mapping[str, Environment]
    cluster: Cluster = Cluster()
    containers: Containers
    probes: Probes
    studies: Sequence[str]
    default_figures: Sequence[str]
    grids: Mapping[str, object]
    recommend: Recommend | None = None

    @property
    def own_results(self) -> str:
        """The folder of what this configuration alone makes: figures, tables, manifests, data sets, probes."""
        return str(Path(self.results) / self.name)

    @property
    def store(self) -> Path:
        """The folder of the measurements, which configurations share."""
        return Path(self.results) / "store"

    @property
    def logs(self) -> str:
        """The folder of the logs of what this configuration alone makes."""
        return str(Path("logs") / self.name)


def settings_from(config: Mapping[str, object]) -> Settings:
    """Make the settings of a configuration.

    Args:
        config: as the schema accepts it. A whole number may be written as a float (50.0).

    Returns:
        The settings.
    """
    return read(Settings, _whole(config))


def _whole(value: object) -> object:
    """A value with integers in place of floats that are whole numbers."""
    if isinstance(value, Mapping):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_params(rule: StopRule) -> dict[str, int | float]:
    """Write a stop rule, or `measure`, for the parameters of rules and sidecars, in which 5 and 5.0 are the same.

    Args:
        rule: its values are numbers.

    Returns:
        Key -> value, sorted by key; whole numbers are integers.
    """
    values: dict[str, int | float] = {each.name: getattr(rule, each.name) for each in fields(rule)}
    return {key: int(value) if value == int(value) else value for key, value in sorted(values.items())}
