"""The file that a foreign table becomes: a CSV whose columns are those of a cell and its measurement."""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path

from ddlbench.errors import DdlbenchError
from ddlbench.files import create_once, read_regular
from ddlbench.prediction.cell import Cell, Measured, within_limits

CELL = tuple(field.name for field in fields(Cell))
MEASURED = ("time_ms", "low_ms", "high_ms", "accuracy_percent", "source")
HEADER = ("per", *CELL, *MEASURED)
_WHOLE = ("workers", "host_count")
_NUMBERS = ("batch_size", "latency_ms", "bandwidth_mbit", "loss_percent", "vcpus", "memory_gb", *MEASURED[:4])


def write_imported(path: Path, measured: list[Measured], per: str) -> None:
    """Write measured cells, whole or not at all; the file may be there already, with the same content.

    Args:
        path: of the file; its folder is made if there is none.
        measured: the cells.
        per: what their times are of, `step` or `epoch`.

    Raises:
        DdlbenchError: another table is there, or the disk is full.
    """
    content = as_csv(measured, per)
    if not create_once(path, content) and path.read_bytes() != content.encode():
        raise DdlbenchError(
            f"{path}: another table of that name is there: delete it, or choose another  --output"
        )


def as_csv(measured: list[Measured], per: str) -> str:
    """Write measured cells as text.

    Args:
        measured: the cells.
        per: what their times are of, `step` or `epoch`.

    Returns:
        The content of an imported file.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for each in measured:
        values = [*(getattr(each.cell, name) for name in CELL), *(getattr(each, name) for name in MEASURED)]
        writer.writerow([per, *("" if value is None else value for value in values)])
    return text.getvalue()


def is_imported(path: Path) -> bool:
    """Tell whether a file is one of ours.

    Args:
        path: of any file.

    Returns:
        Whether it begins as `write_imported` begins.
    """
    try:
        with path.open("rb") as file:
            return file.readline(2000).decode(errors="replace").strip() == ",".join(HEADER)
    except OSError:
        return False


def read_imported(path: Path) -> tuple[list[Measured], str]:
    """Read measured cells.

    Args:
        path: of a file that `write_imported` wrote.

    Returns:
        The cells, and what their times are of, `step` or `epoch`.

    Raises:
        DdlbenchError: it cannot be read, or was changed to something else.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(read_regular(path).decode(), newline="")))
        origin = f"by others, in the table {path.stem}"
        measured = [replace(_measured(row), origin=origin) for row in rows]
        (per,) = {row["per"] for row in rows}
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise DdlbenchError(
            f"{path}: this imported table cannot be read ({error}); delete it and import it again"
        ) from None
    return measured, per


def _measured(row: Mapping[str, str]) -> Measured:
    values = {name: _typed(name, row[name]) for name in (*CELL, *MEASURED)}
    defaults = {field.name for field in fields(Cell) if field.default is not MISSING}
    cell = {name: values[name] for name in CELL if row[name] or name not in defaults}
    return Measured(Cell(**cell), **{name: values[name] for name in MEASURED})  # type: ignore[arg-type]


def _typed(name: str, text: str) -> float | int | str | None:
    if name not in (*_WHOLE, *_NUMBERS):
        return text
    if not text:
        return None
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is {text[:40]}")
    within_limits(name, value)
    return int(value) if name in _WHOLE else value
