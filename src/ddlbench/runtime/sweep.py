"""From a run to its manifest: what the store lacks is measured, in one session for all runs that can share it.

Snakemake has one job for each (grid, run), so that a figure needs its own points only. Where one invocation wants
several grids of a study, the first job of a worker group measures the points of all of them while the group lives; the
others find theirs in the store (see `ddlbench.runtime.invocation`).
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from ddlbench import modules
from ddlbench.datasets.arrays import check
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.measurements import facts, provenance
from ddlbench.measurements.record import step_time_ms
from ddlbench.measurements.statistics import needs_repetition
from ddlbench.measurements.store import Store, fingerprint
from ddlbench.network.hosts import Placement
from ddlbench.plan import Plan, Point, Run, words
from ddlbench.runtime.invocation import Invocation, invocation
from ddlbench.runtime.placement import placement
from ddlbench.runtime.processes import die_with_parent
from ddlbench.runtime.sandbox import run_sandboxed

# What decides how a point is measured; other code may change without a measurement becoming another.
MEASURING_CODE = modules.files(*modules.MEASURING)


@dataclass(frozen=True)
class Materials:
    """What a run is made from: the environment's description file, and each data set's file by its key.

    A run that cannot be measured here needs none of them.
    """

    environment: Path | None
    datasets: Mapping[str, Path]


def measure_run(plan: Plan, run_id: str, materials: Materials, *, manifest: Path, logs: Path) -> None:
    """Write the manifest of a run, after measuring what is missing of it and of its sisters.

    Raises DdlbenchError where something fails; what was measured before is kept and found by the next start.
    """
    die_with_parent()
    started = datetime.now(UTC)
    results = Path(plan.settings["results"])
    desk = _Desk(plan, materials, Store(results / "store"))
    run = plan.run(run_id)
    call = invocation(results / ".invocation.json", run_id)
    if plan.settings["fresh"]:
        desk.start_afresh(run, datetime.fromtimestamp(call.started, UTC))
    if any(desk.is_pending(point, run) for point in run.points):
        desk.measure([plan.run(wanted) for wanted in call.runs], run, call, logs)
    entries = [desk.entry(point, run) for point in run.points]
    grid = plan.grid(run.study, run.grid)
    content = {
        "run": run.id,
        "study": run.study,
        "grid": run.grid,
        "points": entries,
        "report": {**grid.report, "per_epoch": grid.per_epoch},
        "measure": dict(plan.settings["measure"]),
        "host": facts.short_label(desk.facts),
    }
    write_atomically(manifest, json.dumps(content, indent=1) + "\n")
    provenance.write_sidecar(
        manifest,
        made_by="measure",
        inputs={
            "measurement": [path for entry in entries for path in entry["measurements"]],
            "dataset": sorted(set(materials.datasets.values())),
            "environment": [materials.environment] if materials.environment else [],
            "code": MEASURING_CODE,
        },
        parameters={
            "run": run.id,
            "measure": dict(plan.settings["measure"]),
            "dilation": desk.placement(run).dilation,
        },
        started=started,
    )


class _Desk:
    """What is known about points while a run is being prepared: fingerprints, placements, what the store holds."""

    def __init__(self, plan: Plan, materials: Materials, store: Store) -> None:
        self.plan = plan
        self.materials = materials
        self.store = store
        self.facts = facts.gather()
        self.code = provenance.code_version(MEASURING_CODE)
        self.environment = json.loads(materials.environment.read_text()) if materials.environment else {}
        self.datasets = {key: _dataset(key, path) for key, path in materials.datasets.items()}
        self._fingerprints: dict[tuple[Point, str], str] = {}

    def placement(self, run: Run) -> Placement:
        """Where the run's hosts lie on this machine."""
        return placement(self.plan, run)

    def fingerprint(self, point: Point, run: Run) -> str:
        """What the measurements of the point are kept under."""
        if (point, run.id) not in self._fingerprints:
            self._fingerprints[point, run.id] = self._fingerprint(point, run)
        return self._fingerprints[point, run.id]

    def _fingerprint(self, point: Point, run: Run) -> str:
        return fingerprint(
            point.as_dict(),
            measure=self.plan.settings["measure"],
            dilation=self.placement(run).dilation,
            environment_sha256=self.environment["sha256"],
            code_sha256=self.code["sha256"],
            dataset_sha256=self.datasets[point.dataset_key]["provenance"]["sha256"],
            machine=self.facts,
        )

    def is_pending(self, point: Point, run: Run) -> bool:
        """Whether the stop rule asks for another repetition of a point that can be measured."""
        if self.plan.status(point).name != "measurable":
            return False
        records = [record for _, record in self.store.measurements(self.fingerprint(point, run))]
        if any(record["status"] == "does_not_fit" for record in records):
            return False
        return needs_repetition(_values(records), self.plan.settings["measure"])

    def start_afresh(self, run: Run, when: datetime) -> None:
        """Leave out, from now on, what was measured of these points before `when`."""
        for point in run.points:
            self.store.start_afresh(self.fingerprint(point, run), when)

    def entry(self, point: Point, run: Run) -> dict[str, Any]:
        """What the manifest says of a point."""
        status = self.plan.status(point)
        entry = {
            "id": point.id,
            "point": point.as_dict(),
            "fingerprint": None,
            "status": status.name,
            "reason": status.reason,
        }
        if status.name != "measurable":
            return {**entry, "measurements": []}
        key = self.fingerprint(point, run)
        found = self.store.measurements(key)
        if not found:
            raise DdlbenchError(f"{words(point)}: nothing was measured")
        last = found[-1][1]
        return {
            **entry,
            "fingerprint": key,
            "status": last["status"],
            "reason": last["reason"],
            "measurements": [str(path) for path, record in found if record["status"] == last["status"]],
        }

    def measure(self, wanted: list[Run], run: Run, call: Invocation, logs: Path) -> None:
        """Measure, in one session, what is missing of `run` and of the wanted runs that its group can measure."""
        self._take_datasets_of(wanted)
        here = self.placement(run)
        missing = [
            (point, each)
            for each in wanted
            for point in each.points
            if point.dataset_key in self.datasets and self.is_pending(point, each)
        ]
        numbers = {self.fingerprint(point, each): 0 for point, each in missing}
        numbers = {key: number for number, key in enumerate(numbers, start=1)}
        mine: dict[str, Point] = {
            self.fingerprint(point, each): point
            for point, each in missing
            if each.study == run.study
            and each.key == run.key
            and self.placement(each).dilation == here.dilation
        }
        elsewhere = sum(max(1, self._lacking(key)) for key in numbers if key not in mine)
        settings = self.plan.settings
        job = {
            "run": run.id,
            **{key: run.group[key] for key in ("framework", "fabric", "devices", "congestion_control")},
            "placement": asdict(here),
            "python": self.environment["python"],
            "environment": {key: self.environment[key] for key in ("name", "sha256", "packages")},
            "code": self.code,
            "facts": self.facts,
            "datasets": self.datasets,
            "points": [
                {
                    "point": point.as_dict(),
                    "fingerprint": key,
                    "words": words(point),
                    "number": numbers[key],
                    **self._so_far(key),
                }
                for key, point in mine.items()
            ],
            **{key: dict(settings[key]) for key in ("measure", "timeouts", "tolerances")},
            "store": str(self.store.root),
            "logs": str(logs),
            "inherited": dict(os.environ),
            "progress": {"points": len(numbers), "elsewhere": elsewhere},
        }
        path = logs / "job.json"
        write_atomically(path, json.dumps(job))
        status = run_sandboxed("ddlbench.runtime.session", [str(path)], stderr=sys.stderr.fileno())
        if status != 0:
            kept = sum(not self.is_pending(point, run) for point in run.points)
            raise DdlbenchError(
                f"run {run.id} failed (exit status {status}); {kept} of its {len(run.points)} points are done, and "
                f"every complete repetition is kept.\n  Logs: {logs}\n  The same command starts again where it stopped."
            )

    def _take_datasets_of(self, wanted: Iterable[Run]) -> None:
        """Make use of the data sets of other runs too, as far as they lie beside those of this one."""
        folders = {path.parent for path in self.materials.datasets.values()}
        keys = {point.dataset_key for run in wanted for point in run.points} - self.datasets.keys()
        for key, folder in product(sorted(keys), folders):
            if provenance.sidecar_path(folder / f"{key}.npz").is_file():
                self.datasets[key] = _dataset(key, folder / f"{key}.npz")

    def _lacking(self, key: str) -> int:
        return int(self.plan.settings["measure"]["min_repetitions"]) - len(self.store.measurements(key))

    def _so_far(self, key: str) -> dict[str, Any]:
        records = [record for _, record in self.store.measurements(key)]
        upcoming = (
            max((record["repetition"] for record in records), default=-1) + 1
        )  # its seed is not used yet
        return {"values": _values(records), "repetitions": upcoming}


def _values(records: Iterable[Mapping[str, Any]]) -> list[float]:
    return [value for record in records if (value := step_time_ms(record)) is not None]


def _dataset(key: str, path: Path) -> dict[str, Any]:
    """What is known of a data set's file from its sidecar, which it must match."""
    described = provenance.sidecar_path(path)
    try:
        sidecar = json.loads(described.read_text())
        sha256, train_images = sidecar["sha256"], sidecar["parameters"]["train_images"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DdlbenchError(
            f"{described}: this sidecar of a data set cannot be read ({error!r}). "
            f"Remove {path}: the next start makes both anew."
        ) from error
    check(path, sha256)
    return {
        "path": str(path.resolve()),
        "train_images": train_images,
        "provenance": {"name": key, "sha256": sha256},
    }
