"""The configuration as the plan carries it: a class for each block. Their keys are described in the schema."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
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
        """The source of a data set; an empty one if it is made here."""
        sources = {"mnist": self.mnist, "cifar10": self.cifar10, "imagenet": self.imagenet}
        return sources.get(name, DatasetSource())


@dataclass(frozen=True)
class Environment:
    """A framework's environment: the file of its locked requirements."""

    requirements: str


Request = Mapping[str, int | str]  # a key of the configuration's `cluster` -> what SLURM is asked for


@dataclass(frozen=True)
class Cluster:
    """What SLURM is asked for besides what hosts have, by study and by figure."""

    studies: Mapping[str, Request] = field(default_factory=dict)
    figures: Mapping[str, Request] = field(default_factory=dict)


@dataclass(frozen=True)
class Containers:
    """What images begin with."""

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

    `grids` are the changes to the studies' grids, which the plan holds expanded.
    """

    fresh: bool
    results: str
    results_outside: bool = False
    measure: Measure
    dilation: float | Literal["auto"]
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


def settings_from(config: Mapping[str, object]) -> Settings:
    """The settings of a configuration that its schema accepts; 50.0 is a whole number to it."""
    return read(Settings, _whole(config))


def _whole(value: object) -> object:
    """A value with integers in place of floats that are whole numbers."""
    if isinstance(value, Mapping):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_params(rule: StopRule) -> dict[str, int | float]:
    """A stop rule or `measure` by its sorted keys, for params and sidecars, in which 5 and 5.0 are the same."""
    values: dict[str, int | float] = {each.name: getattr(rule, each.name) for each in fields(rule)}
    return {key: int(value) if value == int(value) else value for key, value in sorted(values.items())}
