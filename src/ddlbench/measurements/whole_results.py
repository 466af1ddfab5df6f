"""All that lies below a folder of results, and whether its provenance tells the same of it."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular
from ddlbench.measurements.lineage import (
    Claim,
    claims_of,
    find,
    is_record,
    origin_of,
    read_manifest,
    sidecars_beside,
)
from ddlbench.measurements.mismatches import Comparison, Mismatch
from ddlbench.measurements.provenance import SUFFIX, relative_name, repository_root
from ddlbench.measurements.store import SET_ASIDE, SINCE, STORE, moment

TELEMETRY = "telemetry"  # a session that was killed leaves some that no measurement names
LISTING = "SHA256SUMS"  # of all results, for `ddlbench sign`
SIGNATURE = f"{LISTING}.sig"
OF_SIGNERS = (LISTING, SIGNATURE)


@dataclass(frozen=True)
class Findings:
    """What was found of some results.

    Attributes:
        root: the repository, below which all paths are.
        results: the files that were verified.
        comparison: what was hashed, and what did not match.
        results_of: for each path that does not match, the results that are it, belong to it, or were made from it.
    """

    root: Path
    results: list[str]
    comparison: Comparison
    results_of: dict[str, list[str]] = field(default_factory=dict)

    @property
    def hashed(self) -> int:
        """How many files were hashed."""
        return len(self.comparison.hashes)

    @property
    def mismatches(self) -> list[Mismatch]:
        """What does not match, sorted by path."""
        return self.comparison.sorted()

    @property
    def damage(self) -> list[Mismatch]:
        """What does not match, except our own code, which may change."""
        return [each for each in self.mismatches if not each.is_code]

    def made_from(self, mismatch: Mismatch) -> list[str]:
        """Find the results that something concerns.

        Args:
            mismatch: one of these findings.

        Returns:
            The results that are the file that does not match, belong to it, or were made from it.
        """
        return self.results_of.get(mismatch.path, [])

    def is_of_a_rule(self, mismatch: Mismatch) -> bool:
        """Say who makes a file.

        Args:
            mismatch: one of these findings.

        Returns:
            True if a rule makes it; else it is a measurement, its telemetry, or a file that nothing names.
        """
        is_measured = mismatch.record is not None or f"/{STORE}/" in f"/{mismatch.path}"
        return bool(self.made_from(mismatch)) and not is_measured

    def nearest(self, mismatch: Mismatch) -> str | None:
        """Find the result to make again.

        Args:
            mismatch: one of these findings.

        Returns:
            The file itself, what it belongs to, or what was made from it first; None: no result is concerned.
        """
        made = self.made_from(mismatch)
        folder = Path(mismatch.path).parent
        beside = [name for name in made if Path(name).parent == folder]
        manifests = [name for name in made if read_manifest(self.root / name) is not None]
        return next(iter([*beside, *manifests, *made]), None)


def check_files(files: Iterable[Path], *, inside_only: bool = False) -> Findings:
    """Check some results and all that they were made from.

    Args:
        files: results with an origin, as of `lineage.find`, of one repository. What was made together with a result
            stands for that.
        inside_only: whether a file outside of the repository is a mismatch, and not looked at.

    Returns:
        What was found.

    Raises:
        DdlbenchError: a file has no origin, or lies in another repository than the first.
        DamagedRecord: a sidecar that could be a file's cannot be read.
    """
    root, names = Path.cwd(), []
    for number, file in enumerate(files):
        place, name = find(file)
        if number > 0 and place != root:
            raise DdlbenchError(f"{file}: it lies in another repository than {root}; verify each by itself")
        root = place
        origin = None if is_record(root / name) else origin_of(root, name)
        names.append(str(origin.made["file"]) if origin and origin.made else name)
    findings = Findings(root, list(dict.fromkeys(names)), Comparison(inside_only=inside_only))
    for name in findings.results:
        _check_result(findings, name)
    return findings


def _check_result(findings: Findings, name: str) -> None:
    whole, file = findings.comparison, findings.root / name
    one = Comparison(hashes=whole.hashes, claims=whole.claims, inside_only=whole.inside_only)
    one.compare(findings.root, name, None)
    is_measured = name not in one.mismatches and is_record(file)
    one.visit(findings.root, name, "measurement" if is_measured else "")
    whole.visited |= one.visited
    whole.described |= one.described
    for mismatch in one.mismatches.values():
        whole.add(mismatch)
        findings.results_of.setdefault(mismatch.path, []).append(name)


def check_all(folder: Path) -> Findings:
    """Check every file below a folder of results, whether or not a figure needs it.

    Hidden files are the pipeline's own notes and say nothing of a result, so they are not looked at; neither is what
    was set aside.

    Args:
        folder: the results.

    Returns:
        What was found.

    Raises:
        DdlbenchError: a folder cannot be read.
    """
    root = repository_root(folder / STORE)
    names = sorted(relative_name(file, root) for file in files_below(folder))
    store = relative_name(folder / STORE, root) + "/"
    results = sorted(
        {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}
        | {name for name in names if not name.startswith(store) and read_manifest(root / name) is not None}
    )
    claims: dict[str, Claim] = {}
    for name in results:
        claims |= claims_of(read_manifest(root / name) or {})
    measures = {claim.fingerprint: claim.measure for claim in claims.values()}
    for name in names:
        if name.startswith(store) and name not in claims:  # a manifest may list its neighbours
            key = Path(name).parent.name
            claims[name] = Claim(key, None, measures.get(key))
    comparison = Comparison(claims=claims)
    findings = Findings(root, results, comparison)
    for name in results:
        _check_result(findings, name)
        if f"{name}{SUFFIX}" not in names:
            comparison.add(Mismatch(name, f"has no sidecar {name}{SUFFIX}"))
            findings.results_of.setdefault(name, []).append(name)
    telemetry = relative_name(folder / TELEMETRY, root) + "/"
    for name in names:
        if name.startswith(store):
            _check_in_store(root, name, comparison)
        elif not name.startswith(telemetry) and not name.endswith(SUFFIX):
            _check_is_named(root, name, comparison)
    return findings


def files_below(folder: Path) -> Iterator[Path]:
    """List what lies below a folder of results. Folders may be links.

    Args:
        folder: the results.

    Yields:
        All entries that are no folders, except hidden ones, those set aside, and a signature.

    Raises:
        DdlbenchError: a folder cannot be read.
    """
    seen = set()
    for place, folders, files in os.walk(folder, onerror=_refuse, followlinks=True):
        seen.add(os.path.realpath(place))
        folders[:] = sorted(
            each
            for each in folders
            if each != SET_ASIDE
            and not each.startswith(".")
            and os.path.realpath(os.path.join(place, each)) not in seen
        )
        hidden = OF_SIGNERS if Path(place) == folder else ()
        yield from (Path(place) / each for each in files if not each.startswith(".") and each not in hidden)


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # which has gone meanwhile, or was never there
        raise DdlbenchError(f"{error.filename}: this folder cannot be read: {error.strerror}")


def _check_in_store(root: Path, name: str, comparison: Comparison) -> None:
    if name.endswith(f"/{SINCE}"):
        try:
            moment(read_regular(root / name).decode())
        except (OSError, ValueError) as error:
            comparison.add(Mismatch(name, f"is damaged: it holds no moment ({error})"))
    elif name.endswith(".json"):
        comparison.compare(root, name, None)
        comparison.visit(root, name, "measurement")
    else:
        comparison.add(Mismatch(name, "is no file of a store"))


def _check_is_named(root: Path, name: str, comparison: Comparison) -> None:
    """A file that no sidecar names, unless the sidecar that may do so is known to be damaged."""
    file = Path(name)
    sidecars = (file.parent / f"{file.name}{SUFFIX}", *sidecars_beside(root / name))
    is_reported = any(relative_name(root / sidecar, root) in comparison.mismatches for sidecar in sidecars)
    if name not in comparison.described | comparison.mismatches.keys() and not is_reported:
        comparison.add(Mismatch(name, "has no sidecar, so nothing says where it comes from"))
