"""Tables of measurements: a row for each point (or point and epoch), each metric with its bounds."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddlbench.devices.device import Replay
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular, sha256_json, write_atomically
from ddlbench.measurements.host_columns import Row, of_hosts
from ddlbench.measurements.metrics import METRICS, bounds_of_times, diverged, estimate
from ddlbench.measurements.provenance import repository_root
from ddlbench.measurements.record import (
    DamagedRecord,
    Record,
    epochs,
    read_record,
    steps,
)
from ddlbench.measurements.statistics import is_of_a_fixed_number

if TYPE_CHECKING:
    import pandas

SIGNIFICANT_DIGITS = 6

# Column -> key of a grid's `report`: what epoch_time_s and training_time_s are extrapolated to.
REPORTED = {"epoch_images": "epoch_images", "epoch_steps": "epoch_steps", "reported_epochs": "epochs"}


def aggregate(
    manifests: Sequence[Path | str], measure: Mapping[str, Any] | None = None
) -> "pandas.DataFrame":
    """Make the table of a grid from the manifests of its runs.

    Args:
        manifests: files, which list the measurements.
        measure: the configuration's section, whose stop rule decides the column `resolved`. None takes the section that
            the manifest holds; without either the column is empty.

    Returns:
        One row for each point, sorted; if the report says `per_epoch: true`, one for each point and epoch. Columns:
        study, grid, point_id, the point's keys, (epoch,) status, reason, repetitions, diverged (how many of them have
        no loss), stalled (how many of them were given up as their link stood still), stalled_at_once (how many others
        were, before a quarter of their steps was finished: they do not count), steps (timed steps of all repetitions),
        launches (worker groups that they were in), dilation (the largest of its repetitions) and dilation_least (not
        the same where more was needed on the way),
        unexplained_wait_percent (for how long a thread of a host could run and did not, of the time, beyond what the
        host's other threads and its neighbours' shares explain), shares_hold (whether bursts of CPU got their hosts'
        shares of a core before the run), burst_percent (what bursts got of their host's share, the farthest from 100),
        got_percent and got_percent_most (what hosts got of theirs while they trained: the least, the most),
        own_work_percent (the largest share of the cores that the emulation used, where compute is replayed by waiting),
        replayed_compute_ms (what a worker's compute takes of a step there), systematic_error_percent (how far dilated
        times may be off) and systematic_error_judged (by what),
        vcpus_of_a_core, vcpu_speedup, vcpu_speedup_low, vcpu_speedup_high and vcpu_threads (of hosts whose vCPUs are
        made of one core: how many times as fast as one thread as many threads are, and with which numbers of threads
        that was measured), host_memory_gb (that each host really had), workers_per_gpu, backend, host, hosts_differ_in
        (facts that were not the same in all repetitions, as `cpu_model, clock_mhz`), epoch_images, epoch_steps and
        reported_epochs (to which times are extrapolated), container_engine, python_version, packages_sha256, resolved
        (whether the interval of the step time is as narrow as asked for; empty where the number of repetitions is fixed
        and too small for one), bounds (`interval` or `range`, as `bounds_of_times` says), and m, m_low,
        m_high for each m of METRICS. Between m_low and m_high lies an interval of 95 % or the range of few repetitions.
        A point that could not be measured has a row with its status, its reason and empty metrics.

    Raises:
        DdlbenchError: a manifest or measurement is damaged or missing; names it.
    """
    import pandas

    rows: list[Row] = []
    keys: dict[str, None] = {}
    for path in map(Path, manifests):
        manifest = read_manifest(path)
        for entry in manifest["points"]:
            keys.update(dict.fromkeys(entry["point"]))
            rows += _rows(path, manifest, entry, measure or manifest.get("measure"))
    if not rows:
        raise DdlbenchError(
            f"no point to make a table of in {', '.join(map(str, manifests)) or 'no manifest'}"
        )
    epoch = ["epoch"] if any("epoch" in row for row in rows) else []
    identity = ["study", "grid", "point_id", *keys, *epoch]
    table = pandas.DataFrame(rows)
    table = table.reindex(columns=identity + [name for name in table.columns if name not in identity])
    table = table.sort_values(
        ["study", "grid", *keys, "point_id", *epoch], na_position="first", kind="stable"
    )
    whole = {name: "Int64" for name in [*keys, *epoch] if _are_whole(row.get(name) for row in rows)}
    return table.astype(whole).reset_index(drop=True)


def write_table(table: "pandas.DataFrame", path: Path | str) -> None:
    """Write a table as CSV, whole or not at all. Equal tables give equal bytes.

    Args:
        table: as `aggregate` makes it; it is not changed. Metrics are rounded to six digits.
        path: where the CSV goes.

    Raises:
        DdlbenchError: the disk is full.
    """
    rounded = table.copy()
    for name in (f"{metric}{suffix}" for metric in METRICS for suffix in ("", "_low", "_high")):
        if name in rounded:
            rounded[name] = [_round(value) for value in rounded[name]]
    write_atomically(path, rounded.to_csv(index=False, lineterminator="\n"))


def read_manifest(path: Path) -> dict[str, Any]:
    """Read a run's manifest.

    Args:
        path: its file.

    Returns:
        Its content, with study, grid and points.

    Raises:
        DdlbenchError: it is damaged or missing; says how to make it again.
    """
    try:
        manifest: dict[str, Any] = json.loads(read_regular(path))
        return {key: manifest[key] for key in ("study", "grid", "points")} | manifest
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DdlbenchError(
            f"{path}: this manifest cannot be read ({type(error).__name__}: {error}).\n"
            f"  To write it again:  rm -f {path}  and start again; measurements are kept."
        ) from None


def _rows(
    path: Path, manifest: Mapping[str, Any], entry: Mapping[str, Any], rule: Mapping[str, Any] | None
) -> Iterator[Row]:
    report = manifest.get("report") or {}
    records = records_of(path, entry)
    measured = [record for record in records if record["status"] == entry["status"] == "measured"]
    for number, parts in _by_epoch(measured) if report.get("per_epoch") else [(None, measured)]:
        yield {
            "study": manifest["study"],
            "grid": manifest["grid"],
            "point_id": entry["id"],
            **{key: cell(value) for key, value in entry["point"].items()},
            **({} if number is None else {"epoch": number}),
            "status": entry["status"],
            "reason": entry.get("reason"),
            "repetitions": len(parts),
            "diverged": diverged(parts),
            "stalled": sum(record.get("stalled_s") is not None for record in parts),
            "stalled_at_once": entry.get("stalled", 0),
            "steps": sum(map(steps, parts)),
            "launches": len({record.get("launch") or record["run"] for record in parts}),
            "dilation": max((record["dilation"] for record in records), default=None),
            "dilation_least": min((record["dilation"] for record in records), default=None),
            **of_hosts(records, parts),
            "replayed_compute_ms": replayed_compute_ms(entry["point"]),
            "backend": (records[0].get("link") or {}).get("backend") if records else None,
            "host": manifest.get("host"),
            "hosts_differ_in": ", ".join((manifest.get("differing_hosts") or {}).get(entry["id"], ()))
            or None,
            **{column: report.get(key) for column, key in REPORTED.items()},
            **_software(records),
            **_metrics(parts, report, rule),
        }


def _software(records: Sequence[Record]) -> Row:
    """The container engine, the interpreter and a hash of the packages, which runtimes must share to be compared."""
    environment = records[0]["provenance"].get("environment") or {} if records else {}
    packages = environment.get("packages")
    engine = environment.get("engine") or {}
    return {
        "container_engine": f"{engine['name']} {engine['version']}" if engine else None,
        "python_version": environment.get("python_version"),
        "packages_sha256": sha256_json(packages)[:8] if packages else None,
    }


def replayed_compute_ms(point: Mapping[str, Any]) -> float | None:
    """Say what a worker's compute takes of a step, where it is replayed by waiting.

    Args:
        point: as the manifest holds it.

    Returns:
        Milliseconds; None: compute takes CPU time.
    """
    replay = Replay.from_dict(point["replay"]) if point.get("replay") else None
    return replay.step_ms if replay and replay.waits else None


def _by_epoch(records: Sequence[Record]) -> Iterable[tuple[int, list[Record]]]:
    slices: dict[int, list[Record]] = {1: []}
    for record in records:
        for number, part in epochs(record):
            slices.setdefault(number, []).append(part)
    return slices.items()


def records_of(path: Path, entry: Mapping[str, Any]) -> list[Record]:
    """Read the measurements that an entry of a manifest lists.

    Args:
        path: of the manifest.
        entry: of one point.

    Returns:
        The records, in the entry's order; empty for a point that was not measured.

    Raises:
        DdlbenchError: one is damaged or missing; says how to measure it again.
    """
    records = []
    for name in entry.get("measurements") or []:
        file = repository_root(path) / name
        try:
            records.append(read_record(file, name))
        except (FileNotFoundError, DamagedRecord) as error:
            what = error if isinstance(error, DamagedRecord) else f"{name}: this measurement is missing"
            raise DdlbenchError(
                f"{what}\n  {path} lists it for the point {entry['id']}. To measure it again:"
                f"  rm {path}  and start again; everything else is kept."
            ) from None
    return records


def _metrics(records: Sequence[Record], report: Mapping[str, Any], rule: Mapping[str, Any] | None) -> Row:
    cells: Row = {"resolved": None, "bounds": bounds_of_times(records)}
    for name, metric in METRICS.items():
        found = estimate(metric, records, report)
        cells.update(zip((name, f"{name}_low", f"{name}_high"), found or (None, None, None), strict=True))
        has_interval = cells["bounds"] == "interval"
        if name == "step_time_ms" and found and rule:
            is_lossy = (records[0].get("link") or {}).get("is_lossy")
            percent = rule["lossy_interval_percent" if is_lossy else "interval_percent"]
            is_known = has_interval or not is_of_a_fixed_number(records[0]["point"])
            cells["resolved"] = has_interval and found.half_width_percent <= percent if is_known else None
    return cells


def cell(value: Any) -> Any:
    """Write a point's value as a cell of a table.

    Args:
        value: as the manifest holds it.

    Returns:
        The shape [28, 28, 1] as `28x28x1`, sites and replays as their name; any other value as it is.
    """
    if isinstance(value, Mapping):
        return value["name"]
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else value


def _are_whole(values: Iterator[Any]) -> bool:
    """Whether all values that are not None are whole numbers, and there is at least one."""
    present = [value for value in values if value is not None]
    return bool(present) and all(type(value) is int for value in present)


def _round(value: Any) -> float | None:
    return None if value is None or value != value else float(f"{value:.{SIGNIFICANT_DIGITS}g}")
