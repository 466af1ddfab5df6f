"""`ddlbench trace`: the tree from a result down to measurements, data sets, environments, code and hosts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ddlbench.files import sha256_file, sha256_json
from ddlbench.measurements import facts
from ddlbench.measurements.fingerprint import difference
from ddlbench.measurements.lineage import (
    Claim,
    Input,
    claims_of,
    find,
    is_record,
    origin_of,
    telemetry_files,
)
from ddlbench.measurements.record import DamagedRecord, Record, read_record, words


class Trace(NamedTuple):
    """The tree of a result as lines of text, and how many files in it are damaged, changed or missing."""

    text: str
    damaged: int


@dataclass
class _Node:
    text: str
    is_damaged: bool = False
    children: "list[_Node]" = field(default_factory=list)

    def lines(self, first: str = "", rest: str = "") -> Iterator[str]:
        yield first + self.text
        for child in self.children:
            last = child is self.children[-1]
            yield from child.lines(rest + ("└── " if last else "├── "), rest + ("    " if last else "│   "))

    def damaged(self) -> int:
        return self.is_damaged + sum(child.damaged() for child in self.children)


def trace(file: Path | str) -> Trace:
    """Draw the tree from a file down to measurements, data sets, environments, code and hosts.

    Args:
        file: a result with an origin, as of `lineage.find`.

    Returns:
        Lines of text, with the branches drawn. What differs from what the result's provenance says is marked CHANGED,
        MISSING or DAMAGED.

    Raises:
        DdlbenchError: the file is missing, has no origin, or is a damaged measurement.
    """
    root, name = find(file)
    if is_record(root / name):
        record = read_record(root / name, name)
        node = _labelled(root, name, "")
        node.children = [_Node(words(record["point"])), *_telemetry(root, record), *_leaves([record])]
    else:
        node = _tree(root, name, "", set(), _expected(root, name))
    return Trace("\n".join(node.lines()), node.damaged())


def _expected(root: Path, name: str) -> str | None:
    """The sha256 of a file in the sidecar that it has or shares; None if there is none that can be read."""
    try:
        origin = origin_of(root, name)
    except DamagedRecord:
        return None
    return dict(origin.siblings).get(name) if origin else None


def _tree(root: Path, name: str, role: str, above: set[str], expected: str | None) -> _Node:
    node = _labelled(root, name, role, expected)
    if name in above:
        node.text += "  (shown above)"
        return node
    above.add(name)
    try:
        origin = origin_of(root, name) if (root / name).is_file() else None
    except DamagedRecord as damage:
        node.text += f"  DAMAGED: {damage.why}"
        node.is_damaged = True
        return node
    if origin is None:
        return node
    node.children = _how_made(origin.made)
    beside = [(path, sha256) for path, sha256 in origin.siblings if path != name]
    labelled = [_labelled(root, path, "made together with it:", sha256) for path, sha256 in beside]
    node.children += [each for each in labelled if each.is_damaged]
    node.children += [
        _tree(root, each.path, each.role, above, each.sha256)
        for each in origin.inputs
        if each.role != "measurement"
    ]
    if measurements := [each for each in origin.inputs if each.role == "measurement"]:
        node.children.append(_measurements(root, measurements, claims_of(origin.manifest or {})))
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


def _measurements(root: Path, inputs: Sequence[Input], claims: Mapping[str, Claim]) -> _Node:
    """Measurements, grouped by point, and what they were made with."""
    points: dict[str, _Node] = {}
    records = []
    for path, sha256, _ in inputs:
        label = _labelled(root, path, "", sha256)
        try:
            record = read_record(root / path, path)
            claim = claims.get(path)
            if claim and (why := difference(record, claim.fingerprint, claim.measure)):
                raise DamagedRecord(path, why)
        except FileNotFoundError:
            points.setdefault("missing", _Node("missing")).children.append(label)
            continue
        except DamagedRecord as damage:
            damaged = _Node(f"{label.text}  DAMAGED: {damage.why}", is_damaged=True)
            points.setdefault("damaged", _Node("damaged")).children.append(damaged)
            continue
        records.append(record)
        group = points.setdefault(sha256_json(record["point"]), _Node(words(record["point"])))
        repetition = f"repetition {record['repetition']}{_outcome(record)}, {record['started'][:19]}"
        node = _Node(f"{repetition}  {label.text}", label.is_damaged, _telemetry(root, record))
        group.children.append(node)
    return _Node(f"measurements: {len(inputs)}", children=[*_leaves(records), *points.values()])


def _outcome(record: Record) -> str:
    """Why a repetition is none, or is not whole; empty for one that ended as it should."""
    if record["status"] != "measured":
        return f" ({record['status']}: {record.get('reason')})"
    stalled_s = record.get("stalled_s")
    return f" (given up after {stalled_s:.0f} s without a step)" if stalled_s else ""


def _telemetry(root: Path, record: Record) -> list[_Node]:
    return [_labelled(root, path, "telemetry", sha256) for path, sha256 in telemetry_files(record)]


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


def _labelled(root: Path, name: str, role: str, expected: str | None = None) -> _Node:
    """`table results/tables/x.csv  1f3a9c02b4d1`: role, path, start of the sha256; a mark if it should be another."""
    try:
        found = sha256_file(root / name, follow=False)
    except FileNotFoundError:
        return _Node(f"{role} {name}  MISSING".strip(), is_damaged=True)
    except OSError as error:
        return _Node(f"{role} {name}  DAMAGED: {error.strerror}".strip(), is_damaged=True)
    is_other = expected is not None and found != expected
    mark = f"  CHANGED (was {expected:.12})" if is_other else ""
    return _Node(f"{role} {name}  {found:.12}{mark}".strip(), is_damaged=is_other)


def _code(code: Mapping[str, Any]) -> str:
    commit = f"commit {str(code['commit'])[:12]}" if code.get("commit") else "no commit"
    changed = ", with changes that are not committed" if code.get("dirty") else ""
    return f"ddlbench {code.get('version')}, {commit}{changed}, modules sha256 {str(code.get('sha256'))[:12]}"


def _host(host: Mapping[str, Any]) -> str:
    kernel = f"Linux {host['kernel']}" if host.get("kernel") else None
    parts = [facts.short_label(host), host.get("os"), kernel, host.get("congestion_control")]
    return f"host {host.get('hostname')}: {', '.join(str(part) for part in parts if part)}"
