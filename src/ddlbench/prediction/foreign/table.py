"""Measured cells from tables of others: columns are found by their names, and each bad row is left out by its line."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ddlbench.errors import DdlbenchError, nearest
from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.foreign.files import ForeignTable
from ddlbench.prediction.foreign.quantities import MOST_CHARACTERS, UNITS, quantity, unit_of

# Column -> other names of it, without their units.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "workers": ("nodes", "machines", "hosts", "number_of_workers", "num_workers", "cluster_size"),
    "batch_size": ("batch", "batchsize", "global_batch_size", "global_batch"),
    "latency": ("delay", "added_latency", "network_latency"),
    "bandwidth": ("rate", "link_rate"),
    "loss": ("packet_loss",),
    "step_time": ("time_per_step", "step"),
    "epoch_time": ("time_per_epoch", "epoch"),
    "accuracy": ("test_accuracy", "val_accuracy", "acc"),
    "model": ("network",),
    "framework": (),
    "strategy": (),
}
UNIT_WITHOUT_NAME = {  # of a column whose name has no unit
    "latency": "ms",
    "bandwidth": "mbit",
    "loss": "percent",
    "step_time": "ms",
    "epoch_time": "s",
    "accuracy": None,  # as its values are
}
KINDS = {ours: UNITS[unit][0] if unit else "share" for ours, unit in UNIT_WITHOUT_NAME.items()}
AMBIGUOUS = ("loss", "step", "epoch")  # without a unit: of a training, or a number of one
NEEDED = ("workers", "batch_size")
NAMES = ("model", "framework", "strategy")
TIMES = ("step_time", "epoch_time")
RANGES = {  # in base units
    "workers": (1, 100_000),
    "batch_size": (1, 1e9),
    "latency": (0, 1e5),
    "bandwidth": (1e-3, 1e7),
    "loss": (0, 99),
    "step_time": (1e-4, 1e9),
    "epoch_time": (1e-3, 1e11),
    "accuracy": (0, 100),
}
MOST_NAME = 60


@dataclass(frozen=True)
class Column:
    """Where a quantity is.

    Attributes:
        number: of the column, from 0.
        unit: of values without one; None: they are plain numbers.
    """

    number: int
    unit: str | None


@dataclass(frozen=True)
class Imported:
    """What came of a foreign table.

    Attributes:
        measured: the good rows.
        per: what their time is of, `step` or `epoch`.
        mistakes: number of the line and what is wrong there, for each row that was left out.
        counted: what those numbers count, `line` or `row`.
        columns: column of ours -> the table's that was taken for it.
    """

    measured: list[Measured]
    per: str
    mistakes: list[tuple[int, str]]
    counted: str
    columns: Mapping[str, Column]


def import_table(
    table: ForeignTable,
    path: Path,
    *,
    given: Mapping[str, str] | None = None,
    images: float | None = None,
) -> Imported:
    """Make measured cells of a foreign table.

    Args:
        table: as `read_foreign` gives it.
        path: of it, for messages.
        given: column of ours -> name of the table's, where names do not tell.
        images: of an epoch, which make steps of epochs; None: if times are of epochs, each has equally many steps.

    Returns:
        The good rows, and what is wrong in the others. The same row twice counts once; the same cell with another time
        is another repetition.

    Raises:
        DdlbenchError: a column is missing, is there twice or has an unclear unit, or no row is good.
    """
    columns = find_columns(table.header, path, given or {})
    time = next(name for name in TIMES if name in columns)
    columns = {ours: column for ours, column in columns.items() if ours == time or ours not in TIMES}
    columns = _with_unit_of_accuracy(columns, table)
    measured: dict[Measured, int] = {}
    mistakes: list[tuple[int, str]] = []
    for line, cells in table.rows:
        try:
            if table.may_have_decimal_commas:
                _check_commas(cells, columns)
            row = _row(cells, columns, time, images, f"{path.name}: {table.counted} {line}")
        except ValueError as mistake:
            mistakes.append((line, str(mistake)))
            continue
        same = Measured(row.cell, row.time_ms, accuracy_percent=row.accuracy_percent)
        if same in measured:
            mistakes.append((line, f"is the same as {table.counted} {measured[same]}"))
        else:
            measured[same] = line
    if not measured:
        first = f"; {table.counted} {mistakes[0][0]}: {mistakes[0][1]}" if mistakes else ""
        raise DdlbenchError(f"{path}: no row is good{first}")
    rows = [
        Measured(
            each.cell, each.time_ms, None, None, each.accuracy_percent, f"{path.name}: {table.counted} {line}"
        )
        for each, line in measured.items()
    ]
    per = "step" if time == "step_time" or images else "epoch"
    return Imported(rows, per, mistakes, table.counted, columns)


def find_columns(header: list[str], path: Path, given: Mapping[str, str]) -> dict[str, Column]:
    """Find out which column is what.

    Args:
        header: the table's names.
        path: of the table, for messages.
        given: column of ours -> name of the table's.

    Returns:
        Column of ours -> where it is, and in which unit.

    Raises:
        DdlbenchError: a needed column is missing, there twice, or of an unclear unit; names it, and what helps.
    """
    found: dict[str, Column] = {}
    for ours, name in given.items():
        if name not in header:
            raise DdlbenchError(f"{path}: has no column {name!r}{nearest(name, header)}")
        found[ours] = Column(header.index(name), _unit_of(ours, name, path) or UNIT_WITHOUT_NAME.get(ours))
    for number, name in enumerate(header):
        ours, unit = _meaning(name)
        if not ours or ours in given:
            continue
        if ours in found:
            raise DdlbenchError(
                f"{path}: the columns {header[found[ours].number]!r} and {name!r} may both be {ours}.\n"
                f"  Say which:  --column {ours}={name!r}"
            )
        found[ours] = Column(number, unit or UNIT_WITHOUT_NAME.get(ours))
    missing = [name for name in NEEDED if name not in found]
    if not any(name in found for name in TIMES):
        missing.append(" or ".join(TIMES))
    if missing:
        raise DdlbenchError(
            f"{path}: no column is {', none is '.join(missing)}. Its columns: {', '.join(header)[:500]}\n"
            f"  Say which:  --column {missing[0].split()[0]}=NAME"
        )
    return found


def _unit_of(ours: str, name: str, path: Path) -> str | None:
    """The unit in the name of a column that is said to be one of ours."""
    stem, unit = _without_unit(name)
    kind = KINDS.get(ours)
    if kind == "time" and stem.endswith("_min"):
        raise DdlbenchError(
            f"{path}: {name!r} may be in minutes, or a minimum in another unit.\n"
            f"  Rename it in the table, as  {ours}_minutes  or  {ours}_ms"
        )
    if kind and unit and UNITS[unit][0] != kind:
        raise DdlbenchError(f"{path}: {name!r} is in {unit}, which is no unit of {ours}")
    return unit if kind else None


def _meaning(name: str) -> tuple[str, str | None]:
    """Which column of ours a name stands for (empty: none), and its unit."""
    stem, unit = _without_unit(name)
    for ours, others in ALIASES.items():
        if stem == ours or stem in others:
            fits = KINDS.get(ours) == UNITS[unit][0] if unit else stem not in AMBIGUOUS
            return (ours, unit) if fits else ("", None)
    return "", None


def _without_unit(name: str) -> tuple[str, str | None]:
    """A name as words, without the unit at its end, and that: `Latency (ms)`, `step_time_s`, `bandwidth_mbit_s`."""
    plain = name.strip().lower()
    is_in_brackets = plain.endswith((")", "]"))
    words = re.sub(r"[^a-z0-9%µ/]+", "_", plain).strip("_")
    words = re.sub(r"(?<=bit)_(per_)?s$", "/s", words)
    stem, _, last = words.rpartition("_")
    if stem and (unit := unit_of(last)) and (last != "min" or is_in_brackets):  # else it may be a minimum
        return stem, unit
    return words, None


def _with_unit_of_accuracy(columns: dict[str, Column], table: ForeignTable) -> dict[str, Column]:
    """Accuracies are fractions where nearly all of them are at most 1; the others are mistakes then."""
    column = columns.get("accuracy")
    if column is None or column.unit:
        return columns
    values = Counter[bool]()
    for _, cells in table.rows:
        try:
            values[quantity(cells[column.number], None) <= 1] += 1
        except (ValueError, IndexError):
            continue
    unit = "fraction" if values[True] >= 9 * values[False] else "percent"
    return columns | {"accuracy": Column(column.number, unit)}


def _check_commas(cells: list[str], columns: Mapping[str, Column]) -> None:
    """Raise ValueError where a comma may be a decimal one, or one between thousands."""
    for ours, column in columns.items():
        text = cells[column.number] if ours not in NAMES and column.number < len(cells) else ""
        if text.count(",") == 1 and "." not in text:
            shown = text[:MOST_CHARACTERS]
            raise ValueError(
                f"{ours} is {shown!r}: this comma may be a decimal one; write a point, or nothing"
            )


def _row(
    cells: list[str], columns: Mapping[str, Column], time: str, images: float | None, source: str
) -> Measured:
    """A row; raises ValueError with what is wrong in it."""
    values: dict[str, float] = {}
    names: dict[str, str] = {}
    for ours, column in columns.items():
        text = cells[column.number] if column.number < len(cells) else ""
        if ours in NAMES:
            names[ours] = _name(ours, text)
        elif text.strip() or ours in (*NEEDED, time):
            values[ours] = _value(ours, text, column.unit)
    if values["workers"] != int(values["workers"]):
        raise ValueError(f"workers is {values['workers']:g}, which is no whole number")
    cell = Cell(
        batch_size=values["batch_size"],
        workers=int(values["workers"]),
        latency_ms=values.get("latency", 0.0),
        bandwidth_mbit=values.get("bandwidth"),
        loss_percent=values.get("loss", 0.0),
        model=names.get("model", ""),
        framework=names.get("framework", ""),
        strategy=names.get("strategy", "ring_allreduce"),
    )
    steps = images / cell.batch_size if time == "epoch_time" and images else 1.0
    return Measured(cell, values[time] / steps, accuracy_percent=values.get("accuracy"), source=source)


def _value(ours: str, text: str, unit: str | None) -> float:
    try:
        value = quantity(text, unit)
    except ValueError as mistake:
        raise ValueError(f"{ours} {mistake}") from None
    least, most = RANGES[ours]
    if not least <= value <= most:
        shown = f"{value / 100:g} (of 1)" if unit == "fraction" else f"{value:g}"
        raise ValueError(
            f"{ours} is {shown}, expected {least:g} to {most:g}" + (" %" if ours == "accuracy" else "")
        )
    return value


def _name(ours: str, text: str) -> str:
    name = text.strip()
    if len(name) > MOST_NAME or not name.isprintable():
        raise ValueError(f"{ours} is {name[:MOST_NAME]!r}, expected a name")
    return name or ("ring_allreduce" if ours == "strategy" else "")
