"""`ddlbench trace`: the tree from a result down to measurements, data sets, environments, code and hosts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddlbench.files import sha256_file, sha256_json
from ddlbench.measurements import facts
from ddlbench.measurements.lineage import find, is_record, origin_of, telemetry_files
from ddlbench.measurements.record import DamagedRecord, Record, read_record, words


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
    """Draw the tree from a file down to measurements, data sets, environments, code and hosts.

    Args:
        file: a result with an origin, as of `lineage.find`.

    Returns:
        Lines of text, with the branches drawn.

    Raises:
        DdlbenchError: the file is missing, has no origin, or is a damaged measurement. Other damaged files are marked
            in the tree.
    """
    root, name = find(file)
    if is_record(root / name):
        record = read_record(root / name, name)
        children = [_Node(words(record["point"])), *_telemetry(root, record), *_leaves([record])]
        node = _Node(_labelled(root, name, ""), children)
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
        origin = origin_of(root, name) if (root / name).is_file() else None
    except DamagedRecord as damage:
        node.text += f"  DAMAGED: {damage.why}"
        return node
    if origin is None:
        return node
    node.children = _how_made(origin.made)
    node.children += [
        _tree(root, each.path, each.role, above) for each in origin.inputs if each.role != "measurement"
    ]
    if measurements := [each.path for each in origin.inputs if each.role == "measurement"]:
        node.children.append(_measurements(root, measurements))
    for point in (origin.manifest or {}).get("points", []):
        if not point.get("measurements"):
            reason = f"{words(point['point'])}: {point['status']}: {point.get('reason')}"
            node.children.append(_Node(reason))
    return node


def _how_made(sidecar: Mapping[str, Any] | None) -> list[_Node]:
    if sidecar is None:
        return []
    parameters = ", ".join(f"{key}={value}" for key, value in sidecar["parameters"].items())
    made = f"made by {sidecar['made_by']}, {sidecar['ended'][:19]}"
    return [
        _Node(f"{made}, with {parameters}" if parameters else made),
        _Node(f"code {_code(sidecar['code'])}"),
        _Node(_host(sidecar["host"])),
    ]


def _measurements(root: Path, paths: Sequence[str]) -> _Node:
    """Measurements, grouped by point, and what they were made with."""
    points: dict[str, _Node] = {}
    records = []
    for path in paths:
        label = _labelled(root, path, "")
        try:
            record = read_record(root / path, path)
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
        group.children.append(_Node(f"{repetition}  {label}", _telemetry(root, record)))
    return _Node(f"measurements: {len(paths)}", [*_leaves(records), *points.values()])


def _telemetry(root: Path, record: Record) -> list[_Node]:
    return [_Node(_labelled(root, path, "telemetry")) for path, _ in telemetry_files(record)]


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
