"""Results that exist and have to be made again, for reasons that Snakemake does not see. Nothing is changed here."""

from collections.abc import Iterable
from pathlib import Path

from ddlbench.environments.failed_environments import lacks_its_environment
from ddlbench.plan import Plan


def has_lost(sources: Iterable[Path | str]) -> bool:
    """Whether something that a result was made from is gone, as after a measuring that was cut short.

    Snakemake takes a figure for up to date although its table or manifest does not exist.
    """
    return not all(Path(source).exists() for source in sources)


def is_unfinished(manifest: Path, plan: Plan, run_id: str) -> bool:
    """Whether a run's manifest lacks its data sets, or its points lack an environment that could not be made."""
    keys = {point.dataset_key for point in plan.measurable_points(run_id)}
    datasets = Path(plan.settings.results) / "datasets"
    return has_lost(datasets / f"{key}.npz" for key in keys) or lacks_its_environment(manifest)


def is_older_than(result: Path, stamp: Path) -> bool:
    """Whether a result was made before the last request to measure afresh, of which `stamp` tells."""
    return stamp.exists() and result.stat().st_mtime < stamp.stat().st_mtime
