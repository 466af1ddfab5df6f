"""Measured cells from tables of measurements, as `measurements.tables` writes them."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddlbench.errors import DdlbenchError
from ddlbench.prediction.cell import Cell, Measured

if TYPE_CHECKING:
    import pandas

NAMES = ("model", "image_shape", "framework", "strategy", "devices", "runtime")
NEEDED = ("point_id", "status", "batch_size", "workers", "step_time_ms", *NAMES)


def from_tables(paths: Iterable[Path]) -> list[Measured]:
    """Read measured cells of tables. A point that is in several tables counts once.

    Args:
        paths: CSV files, as in results/tables.

    Returns:
        The cells, in the order of their ids. Cells between sites have no one link, and are left out.

    Raises:
        DdlbenchError: a table cannot be read, or lacks a column; names it.
    """
    found: dict[str, Measured] = {}
    for path in paths:
        for row in _read(path).to_dict("records"):
            is_an_epoch = not _is_empty(row.get("epoch"))
            if row["status"] == "measured" and not is_an_epoch and _is_empty(row.get("sites")):
                found.setdefault(str(row["point_id"]), _measured({str(key): row[key] for key in row}, path))
    return [found[point] for point in sorted(found)]


def _read(path: Path) -> "pandas.DataFrame":
    import pandas

    try:
        table = pandas.read_csv(path, keep_default_na=True)
    except (OSError, ValueError) as error:
        raise DdlbenchError(f"{path}: this table cannot be read ({error})") from None
    if lacking := [name for name in NEEDED if name not in table.columns]:
        raise DdlbenchError(f"{path}: this table of measurements lacks {', '.join(lacking)}")
    return table[table["step_time_ms"].notna()]


def _measured(row: Mapping[str, Any], path: Path) -> Measured:
    cell = Cell(
        batch_size=float(row["batch_size"]),
        workers=int(row["workers"]),
        latency_ms=_number(row.get("latency_ms")) or 0.0,
        bandwidth_mbit=_number(row.get("bandwidth_mbit")),
        loss_percent=_number(row.get("loss_percent")) or 0.0,
        vcpus=_number(row.get("vcpus")) or 1.0,
        host_count=int(_number(row.get("host_count")) or 0) or None,
        **{name: str(row[name]) for name in NAMES},
    )
    return Measured(
        cell,
        float(row["step_time_ms"]),
        _number(row.get("step_time_ms_low")),
        _number(row.get("step_time_ms_high")),
        _number(row.get("test_accuracy_percent")),
        f"{path.stem}: {row['point_id']}",
    )


def _number(value: Any) -> float | None:
    return None if _is_empty(value) else float(value)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
