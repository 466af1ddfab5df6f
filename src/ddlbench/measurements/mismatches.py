"""What does not match: files whose content is not what the provenance of a result says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ddlbench.code.purposes import code_for
from ddlbench.files import sha256_file
from ddlbench.measurements.fingerprint import difference
from ddlbench.measurements.lineage import Claim, claims_of, find, is_record, origin_of, telemetry_files
from ddlbench.measurements.provenance import SUFFIX, relative_name, repository_root
from ddlbench.measurements.record import DamagedRecord, read_record

NEEDS_A_SIDECAR = {"table", "figure"}
OF_RULES = {"measurement", "telemetry", "manifest", "table"}  # the roles of what rules make or measure


@dataclass(frozen=True)
class Mismatch:
    """A file that differs from what its provenance says: changed, missing, damaged or without a sidecar.

    Attributes:
        path: of the file, below the repository's root.
        why: what is wrong with it, as the end of a sentence.
        expected: the sha256 in its provenance, if there is one.
        found: the sha256 that it has now; None if it is missing.
        record: the measurement that it belongs to, if it is telemetry.
        is_code: it is our own code that differs, and no file of the results.
    """

    path: str
    why: str
    expected: str | None = None
    found: str | None = None
    record: str | None = None
    is_code: bool = False

    def __str__(self) -> str:
        hashes = f"\n    expected {self.expected}\n    found    {self.found or '-'}" if self.expected else ""
        return f"{self.path}: {self.why}{hashes}"


def verify(file: Path | str) -> list[Mismatch]:
    """Hash everything again that a file was made from.

    Args:
        file: a result with an origin, as of `lineage.find`.

    Returns:
        The files that do not match, sorted by path; empty if all match.

    Raises:
        DdlbenchError: the file is missing, or has no origin.
    """
    return check([file])[1]


def check(files: Iterable[Path | str]) -> tuple[int, list[Mismatch]]:
    """Verify several files. A file that several of them were made from is hashed once.

    Args:
        files: results with an origin, as of `lineage.find`.

    Returns:
        How many files were hashed, and those that do not match, sorted by path.

    Raises:
        DdlbenchError: a file is missing, or has no origin.
    """
    comparison = Comparison()
    for file in files:
        root, name = find(file)
        comparison.compare(root, name, None)
        comparison.visit(root, name, "measurement" if is_record(root / name) else "")
    return len(comparison.hashes), comparison.sorted()


def mismatches_of(file: Path | str) -> list[Mismatch]:
    """Say why a result must not be used as it is, without looking at what its inputs were made from.

    Args:
        file: a result of a rule that writes a sidecar; it need not exist.

    Returns:
        What does not match its sidecar: the file itself, those made together with it, and of its inputs those that
        rules make or measure. Of a manifest's measurements, also their content; telemetry that is missing does not
        harm them.
    """
    root = repository_root(file)
    name = relative_name(file, root)
    comparison = Comparison(needs_telemetry=False)
    comparison.compare(root, name, None)
    try:
        origin = origin_of(root, name)
    except DamagedRecord as damage:
        return [Mismatch(str(damage.path), f"is damaged: {damage.why}")]
    if origin is None or origin.made is None:
        return [Mismatch(name, f"has no sidecar {name}{SUFFIX}")]
    for path, sha256 in origin.siblings:
        comparison.compare(root, path, sha256)
    comparison.claims |= claims_of(origin.manifest or {})
    for each in origin.inputs:
        if each.role in OF_RULES:
            comparison.compare(root, each.path, each.sha256)
        if each.role == "measurement":
            comparison.visit(root, each.path, each.role)
    return comparison.sorted()


@dataclass
class Comparison:
    """What has been hashed so far, and what did not match.

    Attributes:
        mismatches: by path.
        hashes: the sha256 of each file, or what the system says of one that cannot be read; None: it is missing.
        visited: the files whose origin was looked at.
        described: the files that sidecars are of.
        claims: what manifests say of their measurements, by path.
        needs_telemetry: whether telemetry that is missing is a mismatch.
        inside_only: whether a file outside of the repository is a mismatch, and not looked at.
    """

    mismatches: dict[str, Mismatch] = field(default_factory=dict)
    hashes: dict[str, "str | OSError | None"] = field(default_factory=dict)
    visited: set[str] = field(default_factory=set)
    described: set[str] = field(default_factory=set)
    claims: dict[str, Claim] = field(default_factory=dict)
    needs_telemetry: bool = True
    inside_only: bool = False

    def sorted(self) -> list[Mismatch]:
        """The mismatches, sorted by path."""
        return [self.mismatches[name] for name in sorted(self.mismatches)]

    def add(self, mismatch: Mismatch) -> None:
        """Note a mismatch, unless one of the same path is known.

        Args:
            mismatch: of any file.
        """
        self.mismatches.setdefault(mismatch.path, mismatch)

    def compare(self, root: Path, name: str, expected: str | None, record: str | None = None) -> None:
        """Compare a file with what it should be.

        Args:
            root: the repository.
            name: the file, below it.
            expected: its sha256; None: any, if only it is a regular file.
            record: the measurement that it is the telemetry of; None: it is none.
        """
        if self._is_refused(name):
            self.mismatches[name] = Mismatch(name, "lies outside", expected, None, record)
            return
        found = self._hash_of(root, name)
        if found is None:
            self.mismatches[name] = Mismatch(name, "is missing", expected, None, record)
        elif isinstance(found, OSError):
            self.mismatches[name] = Mismatch(name, str(found.strerror), expected, None, record)
        elif expected is not None and found != expected:
            self.mismatches[name] = Mismatch(name, "has changed", expected, found, record)

    def visit(self, root: Path, name: str, role: str) -> None:
        """Compare all that a file was made from.

        Args:
            root: the repository.
            name: the file, below it.
            role: what it is for who names it; only a `measurement` is read as a record.
        """
        if name in self.visited or self._is_refused(name):
            return
        self.visited.add(name)
        try:
            if role != "measurement":
                self._compare_origin(root, name, role)
            elif isinstance(self._hash_of(root, name), str):
                self._compare_record(root, name)
        except DamagedRecord as damage:
            self.add(Mismatch(str(damage.path), f"is damaged: {damage.why}"))

    def _compare_record(self, root: Path, name: str) -> None:
        record = read_record(root / name, name)
        claim = self.claims.get(name)
        if claim and claim.point is not None and claim.point != record["point"]:
            raise DamagedRecord(name, "it is of another point than its manifest says")
        if claim and (why := difference(record, claim.fingerprint, claim.measure)):
            raise DamagedRecord(name, why)
        for path, sha256 in telemetry_files(record):
            if self.needs_telemetry or self._hash_of(root, path) is not None:
                self.compare(root, path, sha256, name)

    def _compare_origin(self, root: Path, name: str, role: str) -> None:
        origin = origin_of(root, name)
        if origin is None:
            if role in NEEDS_A_SIDECAR:
                self.add(Mismatch(name, f"has no sidecar {name}{SUFFIX}"))
            return
        if changed := _changed_code(origin.code):
            self.mismatches[changed.path] = changed
        for path, sha256 in origin.siblings:
            self.compare(root, path, sha256)
            self.described.add(path)
        self.claims |= claims_of(origin.manifest or {})
        for each in origin.inputs:
            self.compare(root, each.path, each.sha256)
            self.visit(root, each.path, each.role)

    def _is_refused(self, name: str) -> bool:
        path = PurePosixPath(name)
        return self.inside_only and (path.is_absolute() or ".." in path.parts)

    def _hash_of(self, root: Path, name: str) -> "str | OSError | None":
        if name not in self.hashes:
            try:
                self.hashes[name] = sha256_file(root / name, follow=False)
            except FileNotFoundError:
                self.hashes[name] = None
            except OSError as error:
                self.hashes[name] = error
        return self.hashes[name]


def _changed_code(code: Mapping[str, Any]) -> Mismatch | None:
    """The code that decided a file, if it differs from what the sidecar says; None if it does not, or is not known."""
    purpose, expected = code.get("purpose"), code.get("sha256")
    if not isinstance(purpose, str):
        return None
    what = f"code of {purpose!r}"
    try:
        now = code_for(purpose)
    except KeyError:
        return Mismatch(what, "is not known to this version of ddlbench", expected, is_code=True)
    if now.sha256 == expected:
        return None
    modules = code.get("modules") or {}
    changed = sorted(file for file in {*modules, *now.modules} if modules.get(file) != now.modules.get(file))
    return Mismatch(what, f"has changed in {', '.join(changed)}", expected, now.sha256, is_code=True)
