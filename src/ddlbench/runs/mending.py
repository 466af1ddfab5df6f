"""Damage below the results: what must not be used is set aside, and a rule's job makes it again from what is sound.

While rules are read, nothing changes on disk: `is_damaged` only looks. Before the first job, `set_aside_damage` moves
what is damaged, which Snakemake would remove.
"""

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ddlbench.errors import DdlbenchError
from ddlbench.measurements.mismatches import Mismatch, mismatches_of
from ddlbench.measurements.provenance import SUFFIX, relative_name, repository_root
from ddlbench.measurements.store import Store, set_aside
from ddlbench.plan import Plan
from ddlbench.plan.catalogue import SCREENSHOTS


@cache
def is_damaged(result: Path) -> bool:
    """Say whether a result must be made again because it, or what it was made from, does not match its sidecar.

    Args:
        result: an existing file; it is looked at once.

    Returns:
        True if anything of it does not match.
    """
    return bool(mismatches_of(result))


def require_sound(files: Iterable[Path | str]) -> None:
    """Refuse to make a result from files that do not match their sidecars.

    Args:
        files: tables or manifests.

    Raises:
        DdlbenchError: one does not match; names what differs, and what to do.
    """
    for file in files:
        if mismatches := mismatches_of(file):
            listed = "\n".join(f"  {mismatch}" for mismatch in mismatches)
            raise DdlbenchError(
                f"{file}: this is not what was made, so it is not used:\n{listed}\n"
                "  The next start makes it again; `ddlbench verify --repair` mends all results."
            )


def set_aside_damage(made: Iterable[str], results: Path, store: Path) -> None:
    """Set aside what is damaged of results that are about to be made again, and name it on stderr.

    Args:
        made: the files that jobs are going to make.
        results: the folder of the configuration's own results, in which the folder `set-aside` is made.
        store: the folder of the measurements.
    """
    for file in (Path(name.removesuffix(SUFFIX)) for name in made if name.endswith(SUFFIX)):
        if file.exists() or Path(f"{file}{SUFFIX}").exists():
            for mismatch in mismatches_of(file):
                put_away(mismatch, file, results, store)


def put_away(mismatch: Mismatch, of: Path, results: Path, store: Path) -> None:
    """Set aside one damaged file, if there is something to set aside, and a measurement with its telemetry.

    What lies outside of the results is only told: a record or a sidecar that was forged may name any file.

    Args:
        mismatch: what is wrong.
        of: the result whose sidecar says so. Inputs that other rules make stay where they are: if they are damaged,
            their own sidecars say so.
        results: the folder of the configuration's own results.
        store: the folder of the measurements.
    """
    root = repository_root(of)
    path, why = root / mismatch.path, f"{mismatch.path}: {mismatch.why}"
    store = root / relative_name(store, root)
    is_of_the_store = path.is_relative_to(store)
    is_beside = path.parent == (root / relative_name(of, root)).parent
    if not (is_of_the_store or is_beside or mismatch.record is not None):
        return
    folders = [os.path.realpath(folder) for folder in (results, store.parent)]

    def is_among_the_results(file: Path) -> bool:
        return any(Path(os.path.realpath(file.parent)).is_relative_to(folder) for folder in folders)

    if mismatch.record is not None and is_among_the_results(root / mismatch.record):
        Store(store).withdraw(root / mismatch.record, f"its telemetry {mismatch.path} {mismatch.why}")
    if not os.path.lexists(path):
        print(f"warning: {why}. It is made again.", file=sys.stderr, flush=True)
    elif not is_among_the_results(path):
        print(
            f"warning: {why}. It lies outside of the results, so it is not moved.",
            file=sys.stderr,
            flush=True,
        )
    elif is_of_the_store:
        Store(store).withdraw(path, mismatch.why)
    else:
        set_aside(path, results, path.stem, why)


def made_by_rules(plan: Plan) -> set[str]:
    """List the results that a configuration makes, each with a sidecar.

    Args:
        plan: the configuration's.

    Returns:
        Figures, tables, manifests, data sets, probes, and what is written of all of them, as paths below the
        repository's root.
    """
    written = ("claims.csv", "report.html", "report.zip")
    decided = ("recommendation.json",) if plan.settings.recommend else ()
    return {
        f"{plan.settings.own_results}/{name}"
        for name in (
            *(f"figures/{name}.svg" for name in plan.figures),
            *(f"figures/{name}.png" for name in SCREENSHOTS),
            *plan.probe_tables,
            *(f"runs/{run.study}/{run.id}.json" for run in plan.runs),
            *(f"datasets/{key}.npz" for key in plan.dataset_keys),
            *(*written, *decided),
        )
    }
