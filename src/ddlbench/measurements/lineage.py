"""The tree that sidecars span: traced from a result down to each measurement, and verified by hashing it again.

A sidecar lists its file's inputs with their hashes; inputs may have sidecars, too. Manifests and measurement records
speak for themselves: the ones list measurements, the others carry their provenance.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddlbench.code.purposes import code_for
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file, sha256_json
from ddlbench.measurements import facts
from ddlbench.measurements.provenance import SUFFIX, relative_name, repository_root
from ddlbench.measurements.record import DamagedRecord, Record, parse, words

NEEDS_A_SIDECAR = {"table", "figure"}


@dataclass(frozen=True)
class Mismatch:
    """A file that is not what its provenance says: changed, missing, damaged or without a sidecar."""

    path: str
    why: str
    expected: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        hashes = f"\n    expected {self.expected}\n    found    {self.found or '-'}" if self.expected else ""
        return f"{self.path}: {self.why}{hashes}"


# ---------------------------------------------------------------------------------------------- reading


@dataclass
class _Origin:
    """What is known about where a file comes from: its inputs, (path, expected sha256 or None, role) each."""

    heading: list[str] = field(default_factory=list)
    inputs: list[tuple[str, str | None, str]] = field(default_factory=list)
    siblings: list[tuple[str, str]] = field(default_factory=list)  # files made together: (path, sha256)
    manifest: dict[str, Any] | None = None
    code: Mapping[str, Any] = field(default_factory=dict)


def _origin(root: Path, name: str) -> _Origin | None:
    """From the file's sidecar, or from the file itself where it is a manifest; None without either."""
    manifest = _manifest(root / name)
    sidecar = _sidecar_path(root, name)
    if sidecar is None:
        if manifest is None:
            return None
        return _Origin(inputs=[(path, None, "measurement") for path in _listed(manifest)], manifest=manifest)
    content = _read_sidecar(root, sidecar)
    parameters = ", ".join(f"{key}={value}" for key, value in content["parameters"].items())
    heading = [
        f"made by {content['made_by']}, {content['ended'][:19]}"
        + (f", with {parameters}" if parameters else ""),
        f"code {_code(content['code'])}",
        _host(content["host"]),
    ]
    inputs = [(each["path"], each["sha256"], each["role"]) for each in content["inputs"]]
    hashed = {path for path, _, _ in inputs}
    inputs += [(path, None, "measurement") for path in _listed(manifest or {}) if path not in hashed]
    together = [(each["path"], each["sha256"]) for each in content["outputs"]]
    return _Origin(
        heading, inputs, [(content["file"], content["sha256"]), *together], manifest, content["code"]
    )


def _sidecar_path(root: Path, name: str) -> str | None:
    """The sidecar of a file, or of the one it was made together with (the SVG beside a figure's PDF)."""
    if (root / f"{name}{SUFFIX}").is_file():
        return f"{name}{SUFFIX}"
    file = root / name
    for candidate in sorted(file.parent.glob(f"{file.stem}.*{SUFFIX}")):
        relative = relative_name(candidate, root)
        if any(each["path"] == name for each in _read_sidecar(root, relative)["outputs"]):
            return relative
    return None


def _read_sidecar(root: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads((root / name).read_bytes())
        checksum = content.pop("checksum", None)
        if checksum is not None and checksum != sha256_json(content):
            raise ValueError("its checksum does not match its content")
        return {"outputs": [], "parameters": {}, **{key: content[key] for key in _SIDECAR_KEYS}, **content}
    except (ValueError, KeyError, AttributeError) as error:
        raise DamagedRecord(name, f"this sidecar cannot be read ({error}); make its file again") from None


_SIDECAR_KEYS = ("file", "sha256", "made_by", "inputs", "code", "host", "ended")


def _manifest(file: Path) -> dict[str, Any] | None:
    """The content of a run's manifest, None where `file` is something else."""
    if file.suffix != ".json":
        return None
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    is_manifest = isinstance(content, dict) and "run" in content and isinstance(content.get("points"), list)
    return content if is_manifest else None


def _listed(manifest: Mapping[str, Any]) -> Iterator[str]:
    for point in manifest.get("points", []):
        yield from point.get("measurements") or []


def _telemetry(record: Record) -> Iterator[tuple[str, str]]:
    """The files with the telemetry of a record, and their sha256."""
    for each in (record.get("telemetry") or {}).get("files", []):
        yield each["path"], each["sha256"]


def _is_record(file: Path) -> bool:
    return file.suffix == ".json" and b'"step_times_ms"' in file.read_bytes()


def _start(file: Path | str) -> tuple[Path, str]:
    """Root and name of a file that has an origin. Raises DdlbenchError where it is missing or has none."""
    path = Path(os.path.abspath(file))
    root = repository_root(path)
    name = relative_name(path, root)
    if not path.is_file():
        raise DdlbenchError(f"{file}: there is no such file")
    if not _is_record(path) and _sidecar_path(root, name) is None and _manifest(path) is None:
        raise DdlbenchError(
            f"{file}: no sidecar ({path.name}{SUFFIX}) says where this file comes from. "
            "Name a figure, a table, a manifest or a measurement that the pipeline made."
        )
    return root, name


# ---------------------------------------------------------------------------------------------- verify


def verify(file: Path | str) -> list[Mismatch]:
    """Hash everything that `file` was made from again; the files that do not match, sorted by path."""
    return check([file])[1]


def check(files: Iterable[Path | str]) -> tuple[int, list[Mismatch]]:
    """verify() of several files, which looks at each file below them once; also how many it looked at."""
    mismatches: dict[str, Mismatch] = {}
    hashes: dict[str, str | None] = {}
    entered: set[str] = set()

    def hash_of(root: Path, name: str) -> str | None:
        if name not in hashes:
            try:
                hashes[name] = sha256_file(root / name)
            except OSError:
                hashes[name] = None
        return hashes[name]

    def compare(root: Path, name: str, expected: str | None) -> None:
        found = hash_of(root, name)
        if found is None:
            mismatches[name] = Mismatch(name, "is missing", expected)
        elif expected is not None and found != expected:
            mismatches[name] = Mismatch(name, "has changed", expected, found)

    def visit(root: Path, name: str, role: str) -> None:
        if name in entered or hash_of(root, name) is None:
            return
        entered.add(name)
        try:
            if role == "measurement":
                for path, sha256 in _telemetry(parse((root / name).read_bytes(), name)):
                    compare(root, path, sha256)
                return
            origin = _origin(root, name)
        except DamagedRecord as damage:
            path = str(damage.path)
            mismatches.setdefault(path, Mismatch(path, f"is damaged: {damage.why}"))
            return
        if origin is None:
            if role in NEEDS_A_SIDECAR:
                mismatches.setdefault(name, Mismatch(name, f"has no sidecar {name}{SUFFIX}"))
            return
        if changed := _changed_code(origin.code):
            mismatches[changed.path] = changed
        for path, sha256 in origin.siblings:
            compare(root, path, sha256)
        for path, expected, role in origin.inputs:
            compare(root, path, expected)
            visit(root, path, role)

    for file in files:
        root, name = _start(file)
        compare(root, name, None)
        visit(root, name, "measurement" if _is_record(root / name) else "")
    return len(hashes), [mismatches[name] for name in sorted(mismatches)]


def _changed_code(code: Mapping[str, Any]) -> Mismatch | None:
    """What is no longer as a sidecar says of the code that decided its file; None if all is, or if it does not say."""
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


# ---------------------------------------------------------------------------------------------- trace


@dataclass
class _Node:
    text: str
    children: "list[_Node]" = field(default_factory=list)

    def lines(self, first: str = "", rest: str = "") -> Iterator[str]:
        yield first + self.text
        for child in self.children:
            last = child is self.children[-1]
            yield from child.lines(rest + ("└── " if last else "├── "), rest + ("    " if last else "│   "))


def trace(file: Path | str) -> str:
    """The tree from `file` down to measurements, data sets, environments, code and hosts."""
    root, name = _start(file)
    if _is_record(root / name):
        record = parse((root / name).read_bytes(), name)
        telemetry = [_Node(_labelled(root, path, "telemetry")) for path, _ in _telemetry(record)]
        node = _Node(
            _labelled(root, name, ""), [_Node(words(record["point"])), *telemetry, *_leaves([record])]
        )
    else:
        node = _tree(root, name, "", set())
    return "\n".join(node.lines())


def _tree(root: Path, name: str, role: str, above: set[str]) -> _Node:
    node = _Node(_labelled(root, name, role))
    if name in above:
        node.text += "  (shown above)"
        return node
    above.add(name)
    try:
        origin = _origin(root, name) if (root / name).is_file() else None
    except DamagedRecord as damage:
        node.text += f"  DAMAGED: {damage.why}"
        return node
    if origin is None:
        return node
    node.children = [_Node(line) for line in origin.heading]
    measurements = []
    for path, _, role in origin.inputs:
        if role == "measurement":
            measurements.append(path)
        else:
            node.children.append(_tree(root, path, role, above))
    if measurements:
        node.children.append(_measurements(root, measurements))
    for point in (origin.manifest or {}).get("points", []):
        if not point.get("measurements"):
            reason = f"{words(point['point'])}: {point['status']}: {point.get('reason')}"
            node.children.append(_Node(reason))
    return node


def _measurements(root: Path, paths: Sequence[str]) -> _Node:
    """Measurements by point, and what they were made with."""
    points: dict[str, _Node] = {}
    records = []
    for path in paths:
        label = _labelled(root, path, "")
        try:
            record = parse((root / path).read_bytes(), path)
        except FileNotFoundError:
            points.setdefault("missing", _Node("missing")).children.append(_Node(label))
            continue
        except DamagedRecord as damage:
            damaged = _Node(f"{label}  DAMAGED: {damage.why}")
            points.setdefault("damaged", _Node("damaged")).children.append(damaged)
            continue
        records.append(record)
        group = points.setdefault(sha256_json(record["point"]), _Node(words(record["point"])))
        outcome = "" if record["status"] == "measured" else f" ({record['status']}: {record.get('reason')})"
        repetition = f"repetition {record['repetition']}{outcome}, {record['started'][:19]}"
        telemetry = [_Node(_labelled(root, part, "telemetry")) for part, _ in _telemetry(record)]
        group.children.append(_Node(f"{repetition}  {label}", telemetry))
    return _Node(f"measurements: {len(paths)}", [*_leaves(records), *points.values()])


def _leaves(records: Sequence[Record]) -> list[_Node]:
    """Data sets, environments, code, fabric and hosts of records, each once."""
    found: dict[str, None] = {}
    for record in records:
        source = record["provenance"]
        dataset, environment = source.get("dataset") or {}, source.get("environment") or {}
        packages = f"{len(environment.get('packages') or {})} packages"
        found |= dict.fromkeys(
            [
                f"dataset {dataset.get('name')}, sha256 {dataset.get('sha256')}",
                f"environment {environment.get('name')}, {packages}, lock sha256 {environment.get('sha256')}",
                f"code {_code(source.get('code') or {})}",
                f"fabric {source.get('fabric')}, time dilation {record['dilation']:g}",
                *map(_host, source.get("hosts") or []),
            ]
        )
    return [_Node(text) for text in sorted(found)]


def _labelled(root: Path, name: str, role: str) -> str:
    """`table results/tables/x.csv  1f3a9c02b4d1`: role, path, start of the sha256."""
    try:
        found = sha256_file(root / name)[:12]
    except OSError:
        found = "MISSING"
    return f"{role} {name}  {found}".strip()


def _code(code: Mapping[str, Any]) -> str:
    commit = f"commit {str(code['commit'])[:12]}" if code.get("commit") else "no commit"
    changed = ", with changes that are not committed" if code.get("dirty") else ""
    return f"ddlbench {code.get('version')}, {commit}{changed}, modules sha256 {str(code.get('sha256'))[:12]}"


def _host(host: Mapping[str, Any]) -> str:
    kernel = f"Linux {host['kernel']}" if host.get("kernel") else None
    parts = [facts.short_label(host), host.get("os"), kernel, host.get("congestion_control")]
    return f"host {host.get('hostname')}: {', '.join(str(part) for part in parts if part)}"
