"""One point of a run by itself: as its run would measure it, with a manifest and a table of its own."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ddlbench.code.purposes import code_for
from ddlbench.environments.materials import Materials
from ddlbench.files import read_json
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.measurements.tables import aggregate, write_table
from ddlbench.plan import Plan, Point
from ddlbench.plan.settings import Settings
from ddlbench.runs.measure_run import measure_run

FOLDER = "points"  # below the results


def measure_point(
    plan: Plan,
    run_id: str,
    point: Point,
    materials: Materials,
    logs: Path,
    since: datetime | None,
    *,
    again: bool = False,
) -> Path:
    """Measure what the store lacks of a point, and make its table.

    Args:
        plan: all settings.
        run_id: a run that has the point.
        point: to measure.
        materials: its environment and data set.
        logs: a folder; the point has its own below.
        since: what was measured before this moment does not count; None: all counts.
        again: whether it gets as many repetitions again as it has then.

    Returns:
        The table, in a folder of the results for single points; its manifest is beside it.

    Raises:
        DdlbenchError: the measurement failed; every complete repetition is kept.
    """
    folder = Path(plan.settings.own_results) / FOLDER
    manifest, table = folder / f"{point.id}.json", folder / f"{point.id}.csv"
    runs = tuple(replace(run, points=(point,)) if run.id == run_id else run for run in plan.runs)

    def measure(settings: Settings) -> None:
        measure_run(
            replace(plan, runs=runs, settings=settings),
            run_id,
            materials,
            manifest=manifest,
            logs=logs / point.id,
            since=since,
            by_itself=True,
        )

    measure(plan.settings)
    if again:
        (entry,) = read_json(manifest)["points"]
        measure(_repeated(plan.settings, 2 * len(entry["measurements"])))
    started = datetime.now(UTC)
    write_table(aggregate([manifest]), table)
    write_sidecar(
        table,
        made_by="recommend_measure",
        inputs={"manifest": manifest},
        code=code_for("table"),
        started=started,
    )
    return table


def _repeated(settings: Settings, count: int) -> Settings:
    """Settings by which points have so many repetitions at least."""
    asked = settings.measure
    most = max(count, asked.max_repetitions)
    return replace(settings, measure=replace(asked, min_repetitions=count, max_repetitions=most))
