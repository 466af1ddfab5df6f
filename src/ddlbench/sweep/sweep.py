"""From a run to its manifest: what the store lacks is measured, in one session for all runs that can share it.

Snakemake has one job for each (grid, run), so that a figure needs its own points only. Where one invocation wants
several grids of a study, the first job of a worker group measures the points of all of them while the group lives; the
others find theirs in the store (see `ddlbench.sweep.invocation`).
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from ddlbench.cluster.slurm import how_it_ended
from ddlbench.containers import engines
from ddlbench.containers.podman import user_namespace
from ddlbench.datasets.arrays import check
from ddlbench.environments.failed_environments import NO_ENVIRONMENT
from ddlbench.environments.materials import Materials, description_files, readable
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.hosts.launch import is_on_nodes
from ddlbench.measurements import facts, provenance
from ddlbench.measurements.record import step_time_ms
from ddlbench.measurements.statistics import needs_repetition
from ddlbench.measurements.store import Store, fingerprint
from ddlbench.network.hosts import Placement
from ddlbench.plan import Plan, Point, Run, Status, words
from ddlbench.plan.catalogue import STRATEGIES
from ddlbench.sandbox.sandbox import run_sandboxed
from ddlbench.sweep.attempts import FAILURE, attempt
from ddlbench.sweep.invocation import Invocation, invocation, stamped
from ddlbench.sweep.placement import code_of, members_of, placement
from ddlbench.system.processes import die_with_parent, run_to_its_end

SESSION = "ddlbench.sweep.session"


def measure_run(plan: Plan, run_id: str, materials: Materials, *, manifest: Path, logs: Path) -> None:
    """Write the manifest of a run, after measuring what is missing of it and of its sisters.

    Raises DdlbenchError where something fails; what was measured before is kept and found by the next start.
    """
    die_with_parent()
    started = datetime.now(UTC)
    results = Path(plan.settings["results"])
    run = plan.run(run_id)
    desk = _Desk(plan, run, materials, Store(results / "store"))
    call = invocation(results / ".invocation.json", run_id)
    if plan.settings["fresh"]:
        desk.start_afresh(
            run, stamped(results / ".fresh")
        )  # also in a retry, which goes on from the first try
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
            "environment": materials.descriptions,
        },
        code=code_of(run),
        parameters={
            "run": run.id,
            "measure": dict(plan.settings["measure"]),
            "dilation": desk.placement(run).dilation,
        },
        started=started,
    )


class _Desk:
    """What is known about points while a run is being prepared: fingerprints, placements, what the store holds."""

    def __init__(self, plan: Plan, run: Run, materials: Materials, store: Store) -> None:
        self.plan = plan
        self.materials = materials
        self.store = store
        self.facts = facts.gather()
        self.code = provenance.code_version(code_of(run))
        self.environments, self.without = materials.described()
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
        placed = self.placement(run)
        return fingerprint(
            point.as_dict(),
            measure=self.plan.settings["measure"],
            dilation=placed.dilation,
            environment_sha256=self.environments[point.runtime]["sha256"],
            code_sha256=self.code["sha256"],
            dataset_sha256=self.datasets[point.dataset_key]["provenance"]["sha256"],
            machine=self.facts,
            gpus=self._gpus(point, placed),
        )

    def _gpus(self, point: Point, placed: Placement) -> list[str]:
        """What GPUs determine of a measurement: each worker's, and how many share it; on nodes, those of this one."""
        if point.devices != "gpu":
            return []
        of_workers = [f"{share.name}, {share.workers} on it" for share in placed.gpus]
        return of_workers or list(self.facts["gpus"] or ["unknown"])

    def status(self, point: Point) -> Status:
        """Whether the point can be measured, and if not, why not; without its environment or runtime nothing can."""
        status = self.plan.status(point)
        without = self.without.get(point.runtime)
        return Status(NO_ENVIRONMENT, without) if without and not status.reason else status

    def is_pending(self, point: Point, run: Run) -> bool:
        """Whether the stop rule asks for another repetition of a point that can be measured."""
        if self.status(point).name != "measurable":
            return False
        records = [record for _, record in self.store.measurements(self.fingerprint(point, run))]
        if any(record["status"] == "does_not_fit" for record in records):
            return False
        return needs_repetition(_values(records), self.plan.settings["measure"])

    def start_afresh(self, run: Run, when: datetime) -> None:
        """Leave out, from now on, what was measured of these points before `when`."""
        for point in run.points:
            if self.status(point).name == "measurable":
                self.store.start_afresh(self.fingerprint(point, run), when)

    def entry(self, point: Point, run: Run) -> dict[str, Any]:
        """What the manifest says of a point."""
        status = self.status(point)
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
            if self._can_count(each)
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
        runtimes = list(dict.fromkeys(point.runtime for point in mine.values()))
        engines.check({name: self.environments[name] for name in runtimes})
        settings = self.plan.settings
        started = datetime.now(UTC)
        job = {
            "run": run.id,
            **{
                key: run.group[key]
                for key in (
                    *("framework", "strategy", "workers", "fabric", "devices"),
                    *("congestion_control", "sites"),
                )
            },
            "synchronous": STRATEGIES[str(run.group["strategy"])].is_synchronous,
            "members": [asdict(each) for each in members_of(run)],
            "placement": asdict(here),
            "runtime": next(iter(mine.values())).runtime,
            "environments": {name: self.environments[name] for name in runtimes},
            "readable": readable(settings["datasets"], self.materials.datasets.values()),
            "code": self.code,
            "facts": self.facts,
            "datasets": self.datasets,
            **{key: dict(settings[key]) for key in ("measure", "timeouts", "tolerances", "interfaces")},
            "telemetry": {
                **settings["telemetry"],
                "started": started.isoformat(),
                "folder": str(self._telemetry(run) / f"{started:%Y%m%dT%H%M%S.%fZ}"),
            },
            "store": str(self.store.root),
            "logs": str(logs.resolve()),
            "inherited": dict(os.environ),
            "progress": {"points": len(numbers), "elsewhere": elsewhere},
        }
        within = user_namespace({name: self.environments[name] for name in runtimes})
        path = logs / "job.json"
        with attempt(
            logs,
            lambda text: print(f"run {run.id}: {text}", file=sys.stderr, flush=True),
            has_measured=partial(self._has_measured, mine),
        ) as current:
            points = [  # what the store has now: nobody else adds to it any more
                {
                    "point": point.as_dict(),
                    "fingerprint": key,
                    "words": words(point),
                    "number": numbers[key],
                    **self._so_far(key),
                }
                for key, point in mine.items()
            ]
            write_atomically(path, json.dumps({**job, "attempt": current, "points": points}))
            if status := _run_session(run, path, within):
                raise DdlbenchError(self._failure(run, status, logs))

    def _failure(self, run: Run, status: int, logs: Path) -> str:
        kept = sum(not self.is_pending(point, run) for point in run.points)
        told = ""
        if job := os.environ.get("SLURM_JOB_ID"):  # what the session prints is on its node
            why, state = logs / FAILURE, how_it_ended(job)
            told += f"\n  {why.read_text().strip()}" if why.exists() else ""
            told += f"\n  SLURM says of its job {job}: {state}" if state != "RUNNING" else ""
        return (
            f"run {run.id} failed (exit status {status}); {kept} of its {len(run.points)} points are done, and "
            f"every complete repetition is kept.{told}\n  Logs: {logs}\n"
            "  The same command starts again where it stopped."
        )

    def _telemetry(self, run: Run) -> Path:
        """Where the telemetry of a run lies, a folder for each time that it was started."""
        return Path(self.plan.settings["results"]) / "telemetry" / run.study / run.id

    def _take_datasets_of(self, wanted: Iterable[Run]) -> None:
        """Make use of the data sets of other runs too, as far as they lie beside those of this one."""
        folders = {path.parent for path in self.materials.datasets.values()}
        keys = {point.dataset_key for run in wanted for point in run.points} - self.datasets.keys()
        for key, folder in product(sorted(keys), folders):
            if provenance.sidecar_path(folder / f"{key}.npz").is_file():
                self.datasets[key] = _dataset(key, folder / f"{key}.npz")

    def _can_count(self, run: Run) -> bool:
        """Whether what is measured of a run is known here: that of other workers is kept under their hashes."""
        needed = description_files(self.plan.measurable_points(run.id))
        return (
            needed.items() <= self.materials.environments.items()
            and code_of(run).sha256 == self.code["sha256"]
        )

    def _lacking(self, key: str) -> int:
        return int(self.plan.settings["measure"]["min_repetitions"]) - len(self.store.measurements(key))

    def _has_measured(self, keys: Iterable[str], since: datetime) -> bool:
        """Whether anything that is kept under these fingerprints was measured since a moment."""
        starts = (record["started"] for key in keys for _, record in self.store.measurements(key))
        return any(datetime.fromisoformat(started) >= since for started in starts)

    def _so_far(self, key: str) -> dict[str, Any]:
        records = [record for _, record in self.store.measurements(key)]
        upcoming = (
            max((record["repetition"] for record in records), default=-1) + 1
        )  # its seed is not used yet
        return {"values": _values(records), "repetitions": upcoming}


def _run_session(run: Run, job: Path, within: Sequence[str]) -> int:
    """Run the session of a job: in a sandbox, or among the nodes of the SLURM job that we are in; its exit status.

    within: the words that enter the user namespace which the sandbox is to be made in.
    """
    stderr = sys.stderr.fileno()
    (job.parent / FAILURE).unlink(missing_ok=True)
    if is_on_nodes(str(run.group["fabric"])):
        return run_to_its_end([sys.executable, "-m", SESSION, str(job)], stderr=stderr)
    return run_sandboxed(SESSION, [str(job)], within=within, stderr=stderr)


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
