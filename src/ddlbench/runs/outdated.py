"""Results that exist and must be made again, for reasons that Snakemake does not see. Nothing is changed here."""

from collections.abc import Iterable
from pathlib import Path

from ddlbench.environments.failed_environments import NO_ENVIRONMENT
from ddlbench.files import read_json
from ddlbench.plan import Plan


def has_lost(sources: Iterable[Path | str]) -> bool:
    """Say whether a file that a result was made from is missing, for example after a measurement was interrupted.

    Snakemake considers a figure up to date although its table or manifest does not exist.

    Args:
        sources: the files that the result was made from.

    Returns:
        True if any of them is missing.
    """
    return not all(Path(source).exists() for source in sources)


def is_unfinished(manifest: Path, plan: Plan, run_id: str) -> bool:
    """Say whether a run's manifest must be made again.

    Args:
        manifest: the manifest's file.
        plan: all settings.
        run_id: the run, as `Run.id`.

    Returns:
        True if a data set of its measurable points is missing, or if `has_to_try_again` says so.
    """
    keys = {point.dataset_key for point in plan.measurable_points(run_id)}
    datasets = Path(plan.settings.own_results) / "datasets"
    return has_lost(datasets / f"{key}.npz" for key in keys) or has_to_try_again(manifest)


def has_to_try_again(manifest: Path) -> bool:
    """Say whether points lack repetitions for a reason that may have passed.

    Args:
        manifest: the JSON file that lists the points with their status.

    Returns:
        True if an environment of theirs could not be made, or if their link has stalled before any step was finished;
        False if there is no such point, or if the manifest is damaged, which others look for.
    """
    try:
        points = read_json(manifest)["points"]
        return any(each["status"] == NO_ENVIRONMENT or each.get("is_to_try_again") for each in points)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def is_older_than(result: Path, stamp: Path) -> bool:
    """Say whether a result was made before it was asked to be measured afresh.

    Args:
        result: an existing file.
        stamp: of the result, as of `invocation.stamp_of`; it may be missing.

    Returns:
        True if `stamp` is newer than `result`.
    """
    return stamp.exists() and result.stat().st_mtime < stamp.stat().st_mtime
