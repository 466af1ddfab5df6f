"""The table of a telemetry figure: what each node did in the last repetition of each point, by interval."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddlbench.files import write_atomically
from ddlbench.measurements.provenance import repository_root
from ddlbench.measurements.record import Record, steps
from ddlbench.measurements.tables import cell, read_manifest, records_of, replayed_compute_ms
from ddlbench.telemetry import series

if TYPE_CHECKING:
    import pandas

NOT_RECORDED = "measured with `telemetry: {enabled: false}`; `--config fresh=true` measures again"


def tabulate(manifests: Sequence[Path | str]) -> tuple["pandas.DataFrame", list[Path]]:
    """Make the table of runs.

    Args:
        manifests: of the runs.

    Returns:
        The table, and the telemetry files that it was made from. Columns: study, grid, point_id, the point's keys,
        status, reason, repetition, steps (timed), dilation, hertz (samples in a second of the nodes),
        sampler_core_percent, backend, host (the machine), replayed_compute_ms (as of `tables.aggregate`), node, role,
        time_s (the middle of the interval, since the first timed step began), interval_s, and the columns of
        `series.RATES`, empty if a node does not have them. A point without telemetry is one row with its status and
        reason.

    Raises:
        DdlbenchError: a file is damaged or missing; names it.
    """
    import pandas

    tables, files = [], []
    for path in map(Path, manifests):
        manifest = read_manifest(path)
        for entry in manifest["points"]:
            row: dict[str, Any] = {
                "study": manifest["study"],
                "grid": manifest["grid"],
                "point_id": entry["id"],
                **{key: cell(value) for key, value in entry["point"].items()},
                "status": entry["status"],
                "reason": entry.get("reason"),
                "host": manifest.get("host"),
                "replayed_compute_ms": replayed_compute_ms(entry["point"]),
            }
            last = next(reversed(records_of(path, entry)), None)
            if last and last["status"] == "measured" and not last.get("telemetry"):
                row |= {"status": "not_recorded", "reason": NOT_RECORDED}
            elif last and last["status"] == "measured":
                parts = [repository_root(path) / part["path"] for part in last["telemetry"]["files"]]
                tables.append(_activity(row, last, parts))
                files += parts
                continue
            tables.append(pandas.DataFrame([row]))
    return pandas.concat(tables, ignore_index=True), files


def write_table(table: "pandas.DataFrame", path: Path | str) -> None:
    """Write the table as CSV, atomically. Equal tables give equal bytes.

    Args:
        table: as of `tabulate`.
        path: where the CSV goes.
    """
    write_atomically(path, table.to_csv(index=False, float_format="%.7g", lineterminator="\n"))


def _activity(row: Mapping[str, Any], record: Record, parts: Sequence[Path]) -> "pandas.DataFrame":
    samples, metadata = series.read(parts), series.about(parts[-1])
    found = series.rates(samples[samples["point"].notna()], metadata).rename(columns={"host": "node"})
    found["time_s"] -= record["telemetry"]["begin_s"]
    same = {
        **row,
        "repetition": record["repetition"],
        "steps": steps(record),
        "dilation": metadata["dilation"],
        "hertz": metadata["hertz"],
        "sampler_core_percent": metadata["sampler_core_percent"],
        "backend": (record.get("link") or {}).get("backend"),
    }
    return found.assign(**same)[[*same, *found.columns]]
