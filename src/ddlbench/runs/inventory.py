"""What is known about points while a run is prepared: fingerprints, placements, measurements in the store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path

from ddlbench.datasets.arrays import check
from ddlbench.environments.failed_environments import NO_ENVIRONMENT
from ddlbench.environments.materials import Materials, description_files
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_json
from ddlbench.measurements import facts, provenance
from ddlbench.measurements.fingerprint import fingerprint
from ddlbench.measurements.record import Record, is_too_large
from ddlbench.measurements.store import Store
from ddlbench.network.hosts import Placement
from ddlbench.plan import Plan, Point, Run, Status, words
from ddlbench.plan.catalogue import BETWEEN_MACHINES
from ddlbench.plan.settings import as_params
from ddlbench.runs.placement import code_of, placement
from ddlbench.sweep.session_job import DatasetFile, PointToMeasure
from ddlbench.sweep.stop_rule import fewest, needs_repetition, times_of


@dataclass(frozen=True)
class ManifestEntry:
    """A point in its run's manifest: its status, the reason if it was not measured, its measurements' files."""

    id: str
    point: Mapping[str, object]
    fingerprint: str | None
    status: str
    reason: str | None
    measurements: Sequence[str]
    stalled: int = 0  # repetitions that are not among these: they stalled before a part was finished
    is_to_try_again: bool = False  # it lacks repetitions because of that


class Inventory:
    """What is known about the points of a run, and of other points that its worker group can measure.

    Attributes:
        facts: of this machine.
        code: the version of the code that decides what the run measures.
        environments: by runtime.
        without: why there is no environment, by runtime.
        datasets: by name and image shape (digits-28x28x1).
    """

    def __init__(self, plan: Plan, run: Run, materials: Materials, store: Store, began: datetime) -> None:
        self.plan = plan
        self.materials = materials
        self.store = store
        self.began = began
        self.facts = facts.gather()
        self.measure = plan.settings.measure
        self.code = provenance.code_version(code_of(run))
        self.environments, self.without = materials.described()
        self.datasets = {key: _dataset(key, path) for key, path in materials.datasets.items()}
        self._fingerprints: dict[tuple[Point, str], str] = {}

    def placement(self, run: Run) -> Placement:
        """Place a run's hosts.

        Args:
            run: of the plan.

        Returns:
            The hosts on this machine, or those of an allocation, and the time dilation.

        Raises:
            ConfigError: the time dilation that the configuration asks for is not possible.
        """
        return placement(self.plan, run)

    def fingerprint(self, point: Point, run: Run) -> str:
        """Compute the key of a point's measurements in the store, once for each point and run.

        Args:
            point: one that can be measured.
            run: the run that it belongs to, for its placement.

        Returns:
            The sha256 in hexadecimal digits, as `measurements.fingerprint` computes it.
        """
        if (point, run.id) not in self._fingerprints:
            self._fingerprints[point, run.id] = self._fingerprint(point, run)
        return self._fingerprints[point, run.id]

    def _fingerprint(self, point: Point, run: Run) -> str:
        placed = self.placement(run)
        return fingerprint(
            point.as_dict(),
            measure=as_params(self.measure),
            dilation=placed.planned_dilation,
            environment_sha256=self.environments[point.runtime].sha256,
            code_sha256=self.code["sha256"],
            dataset_sha256=self.datasets[point.dataset_key].sha256,
            machine=self.facts,
            gpus=self._gpus(point, placed),
        )

    def _gpus(self, point: Point, placed: Placement) -> list[str]:
        """What of the GPUs determines a measurement: each worker's, and how many share it; on nodes, this node's."""
        if point.devices != "gpu":
            return []
        of_workers = [f"{share.name}, {share.workers} on it" for share in placed.gpus]
        return of_workers or list(self.facts["gpus"] or ["unknown"])

    def status(self, point: Point) -> Status:
        """Say whether a point can be measured here.

        Args:
            point: of the plan.

        Returns:
            The plan's status; `no_environment` with the reason if the point's environment or runtime could not be made.
        """
        status = self.plan.status(point)
        without = self.without.get(point.runtime)
        return Status(NO_ENVIRONMENT, without) if without and not status.reason else status

    def is_pending(self, point: Point, run: Run) -> bool:
        """Say whether a point needs another repetition.

        Args:
            point: of the plan.
            run: the run that it belongs to.

        Returns:
            True if the point can be measured, fits into memory and the stop rule asks for another repetition. One that
            has the fewest, some of them from this invocation, has had its share of time; so has one that stalled in it
            at once. One that did not fit is tried again when its hosts have more memory.
        """
        if self.status(point).name != "measurable":
            return False
        records = self._records(self.fingerprint(point, run))
        has_bytes = self.placement(run).hosts[0].memory_bytes
        if any(is_too_large(record, has_bytes) for record in records):
            return False
        times = times_of(records)
        since = [record["status"] for record in records if _started(record) >= self.began]
        has_had_its_share = "stalled" in since or (since and len(times) >= fewest(point, self.measure))
        return needs_repetition(point, times, self.measure) and not has_had_its_share

    def start_afresh(self, run: Run, when: datetime) -> None:
        """Ignore, in future, all measurements of a run's points that began before a moment.

        Args:
            run: of the plan.
            when: the moment; without a time zone it is UTC.
        """
        for point in run.points:
            if self.status(point).name == "measurable":
                self.store.start_afresh(self.fingerprint(point, run), when)

    def entry(self, point: Point, run: Run) -> ManifestEntry:
        """Make a point's entry of the manifest.

        Args:
            point: of the plan.
            run: the run that it belongs to.

        Returns:
            The entry. It lists the repetitions that were measured, or else the last try at what did not fit or stalled.

        Raises:
            DdlbenchError: the point can be measured, and the store has no measurement of it.
        """
        status = self.status(point)
        if status.name != "measurable":
            return ManifestEntry(point.id, point.as_dict(), None, status.name, status.reason, [])
        key = self.fingerprint(point, run)
        found = self.store.measurements(key)
        if not found:
            raise DdlbenchError(f"{words(point)}: nothing was measured")
        measured = [each for each in found if each[1]["status"] == "measured"]
        paths, last = [str(path) for path, _ in measured or found[-1:]], (measured or found)[-1][1]
        name, reason = last["status"], None if measured else last["reason"]
        stalled = sum(record["status"] == "stalled" for _, record in found)
        fits = found[-1][1]["status"] != "does_not_fit"
        lacks = stalled > 0 and fits and len(measured) < fewest(point, self.measure)
        return ManifestEntry(point.id, point.as_dict(), key, name, reason, paths, stalled, lacks)

    def differing_hosts(self, point: Point, run: Run) -> dict[str, list[str]]:
        """Find out whether a point's repetitions are from hosts of different kinds.

        Args:
            point: of the plan.
            run: the run that it belongs to.

        Returns:
            As of `facts.differing`; empty if all are of one kind, or if nothing was measured.
        """
        if self.status(point).name != "measurable":
            return {}
        records = self._records(self.fingerprint(point, run))
        names = facts.OF_COMPUTE + (facts.OF_NETWORK if point.fabric in BETWEEN_MACHINES else ())
        return facts.differing((record["provenance"]["hosts"] for record in records), names)

    def take_datasets_of(self, wanted: Iterable[Run]) -> None:
        """Add the data sets of other runs, if they lie in the same folders as those of this run.

        Args:
            wanted: the other runs.

        Raises:
            DdlbenchError: a data set's sidecar cannot be read, or the file has another checksum than the sidecar says.
        """
        folders = {path.parent for path in self.materials.datasets.values()}
        keys = {point.dataset_key for run in wanted for point in run.points} - self.datasets.keys()
        for key, folder in product(sorted(keys), folders):
            if provenance.sidecar_path(folder / f"{key}.npz").is_file():
                self.datasets[key] = _dataset(key, folder / f"{key}.npz")

    def can_count(self, run: Run) -> bool:
        """Say whether the fingerprints of another run can be computed here.

        Args:
            run: of the plan.

        Returns:
            True if it has the same environments and is measured by the same code (workers have different code).
        """
        needed = description_files(self.plan.measurable_points(run.id))
        return (
            needed.items() <= self.materials.environments.items()
            and code_of(run).sha256 == self.code["sha256"]
        )

    def lacking(self, key: str, point: Point) -> int:
        """Count the repetitions that a point lacks.

        Args:
            key: the point's fingerprint.
            point: of the plan.

        Returns:
            How many are missing to the least number of the stop rule; 0 or negative if none is.
        """
        return fewest(point, self.measure) - len(times_of(self._records(key)))

    def has_measured(self, keys: Iterable[str], since: datetime) -> bool:
        """Say whether the store has a measurement since a moment.

        Args:
            keys: the fingerprints to look for.
            since: the moment, with a time zone.

        Returns:
            True if a repetition of any of these began at that moment or later.
        """
        return any(_started(record) >= since for key in keys for record in self._records(key))

    def to_measure(self, key: str, point: Point, number: int) -> PointToMeasure:
        """Describe a point for a session, with the repetitions that the store has of it now.

        Args:
            key: the point's fingerprint.
            point: of the plan.
            number: among all points of the invocation, from 1.

        Returns:
            The point, and of its repetitions: times, numbers, and how many steps each has.
        """
        records = self._records(key)
        return PointToMeasure(
            point.as_dict(),
            key,
            words(point),
            number,
            times_of(records),
            [record["repetition"] for record in records if record["status"] != "does_not_fit"],
            next((record["planned_steps"] for record in records if record.get("planned_steps")), None),
        )

    def _records(self, key: str) -> list[Record]:
        return [record for _, record in self.store.measurements(key)]


def _started(record: Record) -> datetime:
    return datetime.fromisoformat(record["started"])


def _dataset(key: str, path: Path) -> DatasetFile:
    """Read what a data set's sidecar says, and check the file against it."""
    described = provenance.sidecar_path(path)
    try:
        sidecar = read_json(described)
        sha256, facts = sidecar["sha256"], sidecar["parameters"]
        images = facts["train_images"], facts["test_images"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DdlbenchError(
            f"{described}: this sidecar of a data set cannot be read ({error!r}). "
            f"Remove {path}: the next start makes both anew."
        ) from error
    check(path, sha256)
    return DatasetFile(str(path.resolve()), *images, key, sha256)
