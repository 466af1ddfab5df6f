"""From a run to its manifest: what the store lacks is measured, in one session for all runs that can share it.

Snakemake has one job for each (grid, run), so that a figure needs its own points only. If one invocation wants several
grids of a study, the first job of a worker group measures the points of all of them while the group lives. The other
jobs find their points in the store (see `ddlbench.runs.invocation`).
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ddlbench.cluster.slurm import how_it_ended
from ddlbench.containers import engines
from ddlbench.containers.podman import user_namespace
from ddlbench.environments.materials import Materials
from ddlbench.errors import DdlbenchError, DiskFull
from ddlbench.files import write_atomically
from ddlbench.measurements import facts, provenance
from ddlbench.measurements.store import Store
from ddlbench.plan import Plan, Point, Run
from ddlbench.plan.catalogue import BETWEEN_MACHINES
from ddlbench.plan.settings import as_params
from ddlbench.protocol.codec import written
from ddlbench.runs.group_of_run import group_job
from ddlbench.runs.inventory import Inventory
from ddlbench.runs.invocation import invocation
from ddlbench.runs.machine_lock import alone_on_these_nodes, alone_on_this_machine
from ddlbench.runs.placement import code_of
from ddlbench.runs.time_left import TimeLeft
from ddlbench.runs.vcpus import vcpu_speeds
from ddlbench.sandbox.sandbox import run_sandboxed
from ddlbench.shares.systematic_error import read_judged
from ddlbench.sweep.attempts import FAILURE, attempt
from ddlbench.sweep.session_job import SPENT, ProgressCounts, SessionJob, TelemetrySettings
from ddlbench.system.processes import die_with_parent, run_to_its_end
from ddlbench.workers.strategies import STRATEGIES

SESSION = "ddlbench.sweep.session"


def measure_run(
    plan: Plan,
    run_id: str,
    materials: Materials,
    *,
    manifest: Path,
    logs: Path,
    since: datetime | None = None,
    by_itself: bool = False,
) -> None:
    """Measure what the store lacks of a run, and of others that its group can measure; then write its manifest.

    Args:
        plan: all settings.
        run_id: the run, as `Run.id`.
        materials: its data sets and environments; empty if nothing of the run can be measured.
        manifest: where the manifest goes, as JSON; its sidecar goes beside it.
        logs: the run's folder of logs; its parent has the study's name.
        since: what was measured before this moment does not count; None: all counts.
        by_itself: whether nothing of other runs is measured.

    Raises:
        ConfigError: there is no such run, or its placement is not possible.
        DdlbenchError: a measurement failed. Earlier repetitions are kept, and the next start continues after them.
    """
    die_with_parent()
    started = datetime.now(UTC)
    results = Path(plan.settings.own_results)
    run = plan.run(run_id)
    current_invocation = invocation(results / ".invocation.json", run_id)
    began = datetime.fromtimestamp(current_invocation.began, UTC)
    store = Store(plan.settings.store, as_params(plan.settings.measure))
    inventory = Inventory(plan, run, materials, store, began)
    if since is not None:
        inventory.start_afresh(run, since)
    if any(inventory.is_pending(point, run) for point in run.points):
        wanted = [run] if by_itself else [plan.run(each) for each in current_invocation.runs]
        is_on_nodes = str(run.group["fabric"]) in BETWEEN_MACHINES
        alone = alone_on_these_nodes if is_on_nodes else alone_on_this_machine
        with alone(plan.settings.other_measurements):
            if any(
                inventory.is_pending(point, run) for point in run.points
            ):  # another job may have measured them
                _measure(
                    inventory,
                    wanted,
                    run,
                    materials,
                    logs,
                    TimeLeft(results / ".left.json", current_invocation),
                    since,
                )
    entries = [inventory.entry(point, run) for point in run.points]
    mixed = {point.id: found for point in run.points if (found := inventory.differing_hosts(point, run))}
    for name, found in mixed.items():
        differences = "; ".join(f"{fact}: {' or '.join(values)}" for fact, values in found.items())
        print(
            f"warning: {name}: its repetitions are from hosts that differ ({differences})",
            file=sys.stderr,
            flush=True,
        )
    content = {
        "run": run.id,
        "study": run.study,
        "grid": run.grid,
        "points": [asdict(entry) for entry in entries],
        "report": plan.grid(run.study, run.grid).reported,
        "measure": as_params(plan.settings.measure),
        "host": facts.short_label(inventory.facts),
        "differing_hosts": mixed,
    }
    write_atomically(manifest, json.dumps(content, indent=1) + "\n")
    provenance.write_sidecar(
        manifest,
        made_by="measure",
        inputs={
            "measurement": [path for entry in entries for path in entry.measurements],
            "dataset": sorted(set(materials.datasets.values())),
            "environment": materials.descriptions,
        },
        code=code_of(run),
        parameters={
            "run": run.id,
            "measure": as_params(plan.settings.measure),
            "dilation": inventory.placement(run).planned_dilation,
        },
        started=started,
    )


def _measure(
    inventory: Inventory,
    wanted: list[Run],
    run: Run,
    materials: Materials,
    logs: Path,
    left: TimeLeft,
    since: datetime | None,
) -> None:
    """Measure, in one session, what is missing of `run` and of the wanted runs that its group can measure."""
    inventory.take_datasets_of(wanted)
    placed = inventory.placement(run)
    missing = [
        (point, each)
        for each in wanted
        if inventory.can_count(each)
        for point in each.points
        if point.dataset_key in inventory.datasets and inventory.is_pending(point, each)
    ]
    points = {inventory.fingerprint(point, each): point for point, each in missing}
    numbers = {key: number for number, key in enumerate(points, start=1)}
    of_this_group: dict[str, Point] = {
        inventory.fingerprint(point, each): point
        for point, each in missing
        if each.study == run.study
        and each.key == run.key
        and inventory.placement(each).dilation == placed.dilation
    }
    alike = {  # their vCPUs are looked at together, as groups of one worker take seconds to start
        inventory.fingerprint(point, each): point
        for point, each in missing
        if (point.framework, point.strategy) == (run.points[0].framework, run.points[0].strategy)
    }
    elsewhere = sum(
        max(1, inventory.lacking(key, point)) for key, point in points.items() if key not in of_this_group
    )
    runtimes = list(dict.fromkeys(point.runtime for point in of_this_group.values()))
    environments = {name: inventory.environments[name] for name in runtimes}
    engines.check(environments)
    within = user_namespace(environments)
    path = logs / "job.json"
    with attempt(
        logs,
        lambda text: print(f"run {run.id}: {text}", file=sys.stderr, flush=True),
        has_measured=partial(inventory.has_measured, of_this_group),
    ) as current:
        settings, started = inventory.plan.settings, datetime.now(UTC)
        paths = {key: dataset.path for key, dataset in inventory.datasets.items()}
        group = group_job(inventory.plan, run, placed, environments, materials, paths, inventory.facts, logs)
        job = SessionJob(
            group=group,
            synchronous=STRATEGIES[run.points[0].strategy].is_synchronous,
            points=[  # read inside the attempt: an earlier one can store nothing any more
                inventory.to_measure(key, point, numbers[key]) for key, point in of_this_group.items()
            ],
            datasets=inventory.datasets,
            code=inventory.code,
            measure=inventory.measure,
            tolerances=settings.tolerances,
            telemetry=TelemetrySettings(
                enabled=settings.telemetry.enabled,
                hertz=settings.telemetry.hertz,
                started=started.isoformat(),
                folder=str(_telemetry(settings.results, run) / f"{started:%Y%m%dT%H%M%S.%fZ}"),
            ),
            store=str(inventory.store.root),
            attempt=current,
            progress=ProgressCounts(len(numbers), elsewhere),
            other_measurements=settings.other_measurements,
            judged=read_judged(),
            vcpu_speeds=vcpu_speeds(inventory, group, alike, since),
            carried_s=left.seconds,
            most_own_work_percent=settings.replay.own_work_percent,
        )
        write_atomically(path, written(job))
        if status := _run_session(run, path, within):
            kind = DiskFull if status == DiskFull.exit_code else DdlbenchError
            raise kind(_failure(inventory, run, status, logs))
        left.update(logs / SPENT)


def _failure(inventory: Inventory, run: Run, status: int, logs: Path) -> str:
    kept = sum(not inventory.is_pending(point, run) for point in run.points)
    more = ""
    if job := os.environ.get("SLURM_JOB_ID"):  # the session's output is on its node only
        why, state = logs / FAILURE, how_it_ended(job)
        more += f"\n  {why.read_text().strip()}" if why.exists() else ""
        more += f"\n  SLURM says of its job {job}: {state}" if state != "RUNNING" else ""
    return (
        f"run {run.id} failed (exit status {status}); {kept} of its {len(run.points)} points are done, and "
        f"every complete repetition is kept.{more}\n  Logs: {logs}\n"
        "  The same command starts again where it stopped."
    )


def _telemetry(results: str, run: Run) -> Path:
    """The folder of a run's telemetry, with a folder for each start of the run."""
    return Path(results) / "telemetry" / run.study / run.id


def _run_session(run: Run, job: Path, within: Sequence[str]) -> int:
    """Run the session of a job in a sandbox, or on the nodes of our SLURM job; return its exit status.

    within: the command words that enter the user namespace in which the sandbox is made.
    """
    stderr = sys.stderr.fileno()
    (job.parent / FAILURE).unlink(missing_ok=True)
    if str(run.group["fabric"]) in BETWEEN_MACHINES:
        return run_to_its_end([sys.executable, "-m", SESSION, str(job)], stderr=stderr)
    return run_sandboxed(SESSION, [str(job)], within=within, stderr=stderr)
