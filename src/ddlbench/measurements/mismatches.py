"""`ddlbench verify`: hash all files again that a result was made from, and compare the hashes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddlbench.code.purposes import code_for
from ddlbench.files import sha256_file
from ddlbench.measurements.lineage import find, is_record, origin_of, telemetry_files
from ddlbench.measurements.provenance import SUFFIX
from ddlbench.measurements.record import DamagedRecord, read_record

NEEDS_A_SIDECAR = {"table", "figure"}


@dataclass(frozen=True)
class Mismatch:
    """A file that differs from what its provenance says: changed, missing, damaged or without a sidecar.

    Attributes:
        path: of the file, below the repository's root.
        why: what is wrong with it, as the end of a sentence.
        expected: the sha256 in its provenance, if there is one.
        found: the sha256 that it has now; None if it is missing.
    """

    path: str
    why: str
    expected: str | None = None
    found: str | None = None

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
    comparison = _Comparison()
    for file in files:
        root, name = find(file)
        comparison.compare(root, name, None)
        comparison.visit(root, name, "measurement" if is_record(root / name) else "")
    mismatches = comparison.mismatches
    return len(comparison.hashes), [mismatches[name] for name in sorted(mismatches)]


@dataclass
class _Comparison:
    """What has been hashed so far, and what did not match."""

    mismatches: dict[str, Mismatch] = field(default_factory=dict)
    hashes: dict[str, str | None] = field(default_factory=dict)  # None: missing
    visited: set[str] = field(default_factory=set)

    def compare(self, root: Path, name: str, expected: str | None) -> None:
        found = self._hash_of(root, name)
        if found is None:
            self.mismatches[name] = Mismatch(name, "is missing", expected)
        elif expected is not None and found != expected:
            self.mismatches[name] = Mismatch(name, "has changed", expected, found)

    def visit(self, root: Path, name: str, role: str) -> None:
        """Compare all that a file was made from."""
        if name in self.visited or self._hash_of(root, name) is None:
            return
        self.visited.add(name)
        try:
            if role == "measurement":
                self._compare_telemetry(root, name)
            else:
                self._compare_origin(root, name, role)
        except DamagedRecord as damage:
            path = str(damage.path)
            self.mismatches.setdefault(path, Mismatch(path, f"is damaged: {damage.why}"))

    def _compare_telemetry(self, root: Path, name: str) -> None:
        for path, sha256 in telemetry_files(read_record(root / name, name)):
            self.compare(root, path, sha256)

    def _compare_origin(self, root: Path, name: str, role: str) -> None:
        origin = origin_of(root, name)
        if origin is None:
            if role in NEEDS_A_SIDECAR:
                self.mismatches.setdefault(name, Mismatch(name, f"has no sidecar {name}{SUFFIX}"))
            return
        if changed := _changed_code(origin.code):
            self.mismatches[changed.path] = changed
        for path, sha256 in origin.siblings:
            self.compare(root, path, sha256)
        for each in origin.inputs:
            self.compare(root, each.path, each.sha256)
            self.visit(root, each.path, each.role)

    def _hash_of(self, root: Path, name: str) -> str | None:
        if name not in self.hashes:
            try:
                self.hashes[name] = sha256_file(root / name)
            except OSError:
                self.hashes[name] = None
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
        return Mismatch(what, "is not known to this version of ddlbench", expected)
    if now.sha256 == expected:
        return None
    modules = code.get("modules") or {}
    changed = sorted(file for file in {*modules, *now.modules} if modules.get(file) != now.modules.get(file))
    return Mismatch(what, f"has changed in {', '.join(changed)}", expected, now.sha256)
