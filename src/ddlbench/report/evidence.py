"""What stands behind tables: their measurements, on which hosts, in which environments, over which links."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ddlbench.measurements import facts
from ddlbench.measurements.lineage import measurements_of, origin_of
from ddlbench.measurements.record import Record, read_record

REPLAY = "replay"


class Made(NamedTuple):
    """A file that a rule made, as its sidecar says."""

    file: str
    rule: str
    ended: str
    sha256: str
    code: str
    manifests: int
    measurements: int


class LinkMeasured(NamedTuple):
    """A link as it was asked for and as its checks found it, over all repetitions that used it.

    Its name is that of a site, of a way between two, or of what workers on a host share; empty: all hosts have it. Each
    measured value is the median, the least and the most; None: it was not measured. Latency is measured there and back
    (`rtt_ms`), or one way where ways differ.
    """

    name: str
    bandwidth_mbit: float | None
    latency_ms: float | None
    loss_percent: float | None
    backend: str
    repetitions: int
    rate_mbit: tuple[float, float, float] | None
    rtt_ms: tuple[float, float, float] | None
    one_way_ms: tuple[float, float, float] | None
    measured_loss_percent: tuple[float, float, float] | None


class Environment(NamedTuple):
    """What workers ran in."""

    name: str
    python: str
    engine: str
    sha256: str
    packages: Mapping[str, str]


@dataclass
class Evidence:
    """What was found below some tables.

    Attributes:
        made: the tables.
        kinds: how many repetitions were measured on what, as `emulated hosts`.
        hosts: how many repetitions each machine took part in, by its description.
        environments: by the hash of their locked packages.
        links: in order of rate, latency and loss.
        dilations: of all repetitions.
        codes: versions of ddlbench that measured.
        first: when the first repetition began.
        last: when the last one ended.
    """

    made: list[Made] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, int] = field(default_factory=dict)
    environments: dict[str, Environment] = field(default_factory=dict)
    links: list[LinkMeasured] = field(default_factory=list)
    dilations: list[float] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)
    first: str = ""
    last: str = ""

    @property
    def repetitions(self) -> int:
        """How many there are."""
        return sum(self.kinds.values())


def evidence_of(root: Path, tables: Iterable[str]) -> Evidence:
    """Read what tables were made from.

    Args:
        root: the repository.
        tables: below it, each with a sidecar.

    Returns:
        What stands behind all of them; a measurement that several tables use counts once.

    Raises:
        DdlbenchError: a measurement or a sidecar is damaged.
        FileNotFoundError: a measurement is missing.
    """
    found = Evidence()
    records: dict[str, Record] = {}
    for table in tables:
        manifests = [each.path for each in _inputs(root, table) if each.role == "manifest"]
        names = [name for manifest in manifests for name in _measurements(root, manifest)]
        records |= {name: read_record(root / name, name) for name in names if name not in records}
        found.made.append(_made(root, table, len(manifests), len(names)))
    _count(found, list(records.values()))
    return found


def _inputs(root: Path, name: str) -> Sequence[Any]:
    origin = origin_of(root, name)
    return origin.inputs if origin else ()


def _measurements(root: Path, manifest: str) -> Iterator[str]:
    origin = origin_of(root, manifest)
    return measurements_of((origin.manifest if origin else None) or {})


def _made(root: Path, table: str, manifests: int, measurements: int) -> Made:
    origin = origin_of(root, table)
    sidecar = (origin.made if origin else None) or {}
    return Made(
        table,
        str(sidecar.get("made_by", "")),
        str(sidecar.get("ended", ""))[:19],
        str(sidecar.get("sha256", "")),
        _code(sidecar.get("code") or {}),
        manifests,
        measurements,
    )


def _count(found: Evidence, records: Sequence[Record]) -> None:
    for record in records:
        source = record["provenance"]
        _add(found.kinds, _kind(record))
        _add(found.codes, _code(source.get("code") or {}))
        for host in {_host(each) for each in source.get("hosts") or []}:
            _add(found.hosts, host)
        environment = _environment(source.get("environment") or {})
        found.environments.setdefault(environment.sha256, environment)
    found.dilations = sorted({float(record["dilation"]) for record in records})
    found.first = min((record["started"] for record in records), default="")[:19]
    found.last = max((record["ended"] for record in records), default="")[:19]
    found.links = _links(records)


def _add(counts: dict[str, int], key: str) -> None:
    counts[key] = counts.get(key, 0) + 1


def _kind(record: Record) -> str:
    """Emulated, replayed and real, told apart."""
    point = record["point"]
    fabric = str(point.get("fabric", ""))
    where = "emulated hosts" if fabric == "emulated" else f"real hosts ({fabric})"
    if point.get("compute") == REPLAY:
        replayed = point.get("replay") or {}
        name = replayed.get("name", "a device") if isinstance(replayed, Mapping) else str(replayed)
        return f"{where}, compute replayed as on {name}"
    return f"{where}, computed by {'GPUs' if point.get('devices') == 'gpu' else 'CPUs'}"


def _host(host: Mapping[str, Any]) -> str:
    kernel = f"Linux {host['kernel']}" if host.get("kernel") else None
    parts = [facts.short_label(host), host.get("os"), kernel, host.get("congestion_control")]
    return ", ".join(str(part) for part in parts if part)


def _environment(source: Mapping[str, Any]) -> Environment:
    engine = source.get("engine") or {}
    return Environment(
        str(source.get("name", "")),
        str(source.get("python_version") or ""),
        f"{engine['name']} {engine['version']}" if engine else "",
        str(source.get("sha256", "")),
        source.get("packages") or {},
    )


def _code(code: Mapping[str, Any]) -> str:
    commit = f"commit {str(code['commit'])[:12]}" if code.get("commit") else "no commit"
    return f"{code.get('version')}, {commit}{', changed since' if code.get('dirty') else ''}"


def _links(records: Iterable[Record]) -> list[LinkMeasured]:
    checks: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        link = record.get("link") or {}
        measured = link.get("measured") or {}
        for name, asked in _by_name(link.get("asked") or {}).items():
            values = (asked.get(key) for key in ("bandwidth_mbit", "latency_ms", "loss_percent"))
            found = measured.get(name) or {} if name else measured
            checks.setdefault((name, *values, link.get("backend") or ""), []).append(found)
    links = [
        LinkMeasured(
            name,
            bandwidth_mbit,
            latency_ms,
            loss_percent,
            str(backend),
            len(each),
            _spread(each, "rate_mbit"),
            _spread(each, "rtt_ms"),
            _spread(each, "latency_ms"),
            _spread(each, "loss_percent"),
        )
        for (name, bandwidth_mbit, latency_ms, loss_percent, backend), each in checks.items()
    ]
    return sorted(links, key=lambda link: [-1.0 if value is None else value for value in link[1:4]])


def _by_name(asked: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The links that a record asks for, by the names that its checks have; the link of all hosts has none."""
    if "sites" in asked:
        return {**asked["lans"], **asked["wans"]}
    return asked if "card" in asked else {"": asked} if asked else {}


def _spread(checks: Iterable[Mapping[str, Any]], name: str) -> tuple[float, float, float] | None:
    values = [float(check[name]) for check in checks if check.get(name) is not None]
    return (median(values), min(values), max(values)) if values else None
