"""Results that have lost what they were made from, as when measuring them again was cut short.

Snakemake takes a figure for up to date although its manifest is gone. A result that stands on nothing goes too, and so
it is made again; measurements are never touched. So goes, when it is asked for, what lacks an environment that could
not be made.
"""

from collections.abc import Collection
from pathlib import Path

from ddlbench.environments.failed_environments import lacks_its_environment
from ddlbench.plan import Plan


def remove_orphans(plan: Plan, *, retried: Collection[str] = ()) -> None:
    """Remove each manifest, table and figure of which something that it was made from does not exist.

    retried: the figures whose manifests go too where a run's environment could not be made.
    """
    results = Path(plan.settings.results)
    for figure in plan.figures.values():
        manifests = []
        for run in plan.runs_of(figure.name):
            manifest = results / "runs" / run.study / f"{run.id}.json"
            keys = {point.dataset_key for point in plan.measurable_points(run.id)}
            _remove_unless(manifest, [results / "datasets" / f"{key}.npz" for key in keys])
            if figure.name in retried and lacks_its_environment(manifest):
                manifest.unlink()
            manifests.append(manifest)
        table = results / "tables" / f"{figure.name}.csv"
        _remove_unless(table, manifests)
        _remove_unless(results / "figures" / f"{figure.name}.svg", [results / each for each in figure.tables])


def _remove_unless(file: Path, sources: list[Path]) -> None:
    if not all(source.exists() for source in sources):
        file.unlink(missing_ok=True)
