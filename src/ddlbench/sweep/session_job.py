"""What a session measures: the driver writes it to a file, the session reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ddlbench.launch.group_job import GroupJob
from ddlbench.measurements.statistics import Total
from ddlbench.protocol.measure import Measure
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.shares.systematic_error import Judged

SPENT = "session.json"  # in a run's folder of logs: what its last session spent its time on
WhenBusy = Literal["wait", "refuse", "ignore"]


@dataclass(frozen=True)
class PointToMeasure:
    """A point of a session.

    Attributes:
        point: of the plan, as `Point.as_dict` gives it.
        fingerprint: under which its measurements are kept.
        words: the point for a person.
        number: among all points of this invocation, from 1.
        timed: the steps and times of its repetitions so far.
        used: the numbers of its repetitions; with a number goes a seed.
        steps: how many steps each of its repetitions has; None: it has none yet.
    """

    point: Mapping[str, object]
    fingerprint: str
    words: str
    number: int
    timed: Sequence[Total]
    used: Sequence[int]
    steps: int | None


@dataclass(frozen=True, kw_only=True)
class VcpuSpeed:
    """How many times as fast as one thread the threads of a host are whose vCPUs are made of one core.

    Attributes:
        vcpus: of the host; a thread for each.
        speedup: of so many threads, by Amdahl's law; None: it could not be measured.
        low: the lower bound of its interval of 95 %.
        high: the upper bound.
        threads: the numbers of threads that were measured.
        repetitions: of each.
        batch_size: of the worker that was measured.
        date: when (ISO 8601, UTC).
        why_not: why it could not be measured.
    """

    vcpus: int
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    threads: Sequence[int] = ()
    repetitions: int | None = None
    batch_size: int | None = None
    date: str | None = None
    why_not: str | None = None

    def dilation(self, placed: float) -> float:
        """Compute the time dilation with which the core is as fast as the threads.

        Args:
            placed: with which it is as fast as threads would be that divide a step perfectly, as of `hosts.place`.

        Returns:
            As much less as the threads are slower than that; the same where their speed is not known.
        """
        return placed if self.speedup is None else placed * self.speedup / self.vcpus


@dataclass(frozen=True)
class DatasetFile:
    """A data set's file, how many images it has for training and for tests, and its checksum."""

    path: str
    train_images: int
    test_images: int
    name: str
    sha256: str


@dataclass(frozen=True)
class TelemetrySettings:
    """Whether and how often hosts are sampled.

    Attributes:
        enabled: whether they are sampled at all.
        hertz: samples per second.
        started: when the session started (ISO 8601, UTC).
        folder: where the samples go; its name is made from `started`.
    """

    enabled: bool
    hertz: float
    started: str
    folder: str


@dataclass(frozen=True)
class ProgressCounts:
    """What an invocation had to measure at first: its points, and the repetitions that other groups have to do."""

    points: int
    elsewhere: int


@dataclass(frozen=True, kw_only=True)
class SessionJob:
    """A worker group, its hosts, and the points that it measures.

    Attributes:
        synchronous: after training all ranks must have the same parameters.
        datasets: by name and image shape.
        code: its version, for the records.
        store: the folder of the measurement store.
        attempt: the id of this attempt at the run.
        other_measurements: what to do about others that take the cores, as the configuration's key says.
        vcpu_speeds: by the points' fingerprints, as of `runs.vcpus`: how fast the vCPUs are that are made of one core.
        dilations: of time, by the points' fingerprints, where measurement chose them; else all have the placement's.
        carried_s: time for more repetitions that earlier groups of this invocation did not need.
        judged: how far emulated times may be off, as benchmarks found.
        most_own_work_percent: what moving bytes may take of the cores where compute is replayed by waiting.
    """

    group: GroupJob
    synchronous: bool
    points: Sequence[PointToMeasure]
    datasets: Mapping[str, DatasetFile]
    code: Mapping[str, object]
    measure: Measure
    tolerances: Tolerances
    telemetry: TelemetrySettings
    store: str
    attempt: str
    progress: ProgressCounts
    other_measurements: WhenBusy
    judged: Judged = field(default_factory=Judged)
    vcpu_speeds: Mapping[str, VcpuSpeed] = field(default_factory=dict)
    dilations: Mapping[str, float] = field(default_factory=dict)
    carried_s: float = 0.0
    most_own_work_percent: float = 100.0

    def dilation_of(self, fingerprint: str) -> float:
        """Find the time dilation of a point.

        Args:
            fingerprint: of the point.

        Returns:
            The one that was chosen for it, or the placement's; where the host's vCPUs are made of one core, what their
            speed makes of it.
        """
        placed = self.dilations.get(fingerprint, self.group.placement.dilation)
        speed = self.vcpu_speeds.get(fingerprint)
        return speed.dilation(placed) if speed else placed
