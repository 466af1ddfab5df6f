"""Measured cells from tables of others; each bad row is left out by its line."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddlbench.errors import DdlbenchError
from ddlbench.prediction.cell import LIMITS, Cell, Measured
from ddlbench.prediction.foreign.columns import NEEDED, TIMES, Column, find_columns
from ddlbench.prediction.foreign.files import ForeignTable
from ddlbench.prediction.foreign.quantities import (
    MOST_CHARACTERS,
    has_decimal_point,
    has_unclear_point,
    quantity,
)

NAMES = ("model", "framework", "strategy")
RANGES = {  # in base units
    "workers": LIMITS["workers"],
    "batch_size": LIMITS["batch_size"],
    "latency": LIMITS["latency_ms"],
    "bandwidth": LIMITS["bandwidth_mbit"],
    "loss": (0, 99),
    "step_time": (1e-4, 1e9),
    "epoch_time": (1e-3, 1e11),
    "accuracy": (0, 100),
}
MOST_NAME = 60


@dataclass(frozen=True)
class Imported:
    """What came of a foreign table.

    Attributes:
        measured: the good rows.
        per: what their time is of, `step` or `epoch`.
        mistakes: number of the line and what is wrong there, for each row that was left out.
        counted: what those numbers count, `line` or `row`.
        columns: column of ours -> the table's that was taken for it.
        unused: names of the table's other columns.
    """

    measured: list[Measured]
    per: str
    mistakes: list[tuple[int, str]]
    counted: str
    columns: Mapping[str, Column]
    unused: list[str]


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
    columns = _with_unit_of_accuracy(columns, table, path)
    measured: dict[Measured, int] = {}
    mistakes = list(table.mistakes)
    may_group = table.may_have_decimal_commas and not _has_decimal_points(columns, table)
    for line, cells in table.rows:
        try:
            _check_length(cells, table.header)
            if table.may_have_decimal_commas:
                _check_marks(cells, columns, may_group)
            row = _row(cells, columns, time, images, f"{path.name}: {table.counted} {line}")
        except ValueError as mistake:
            mistakes.append((line, str(mistake)))
            continue
        same = Measured(row.cell, row.time_ms, accuracy_percent=row.accuracy_percent)
        if same in measured:
            mistakes.append((line, f"is the same as {table.counted} {measured[same]}"))
        else:
            measured[same] = line
    mistakes.sort()
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
    taken = {column.number for column in columns.values()}
    unused = [name for number, name in enumerate(table.header) if number not in taken]
    return Imported(rows, per, mistakes, table.counted, columns, unused)


def _with_unit_of_accuracy(columns: dict[str, Column], table: ForeignTable, path: Path) -> dict[str, Column]:
    """Accuracies are fractions where most of them are at most 1; the others are mistakes then."""
    column = columns.get("accuracy")
    if column is None or column.unit:
        return columns
    values = Counter[bool]()
    for _, cells in table.rows:
        try:
            values[quantity(cells[column.number], None) <= 1] += 1
        except (ValueError, IndexError):
            continue
    if values[True] == values[False] > 0:
        raise DdlbenchError(
            f"{path}: {column.name!r} has as many values up to 1 as above: fractions, or percent?\n"
            "  Rename it in the table, as  accuracy_percent  or  accuracy_fraction"
        )
    unit = "fraction" if values[True] > values[False] else "percent"
    return columns | {"accuracy": Column(column.number, column.name, unit)}


def _check_length(cells: list[str], header: list[str]) -> None:
    """Raise ValueError where cells are below no name: those before them may be below another's, as of `64,000`."""
    if any(cell.strip() for cell in cells[len(header) :]):
        raise ValueError(f"has {len(cells)} cells, where the header names {len(header)} columns")


def _has_decimal_points(columns: Mapping[str, Column], table: ForeignTable) -> bool:
    """Whether some number has a decimal point for sure, so that those of the others are decimal ones, too."""
    return any(has_decimal_point(text) for _, cells in table.rows for _, text in _numbers(cells, columns))


def _numbers(cells: list[str], columns: Mapping[str, Column]) -> Iterator[tuple[str, str]]:
    for ours, column in columns.items():
        if ours not in NAMES and column.number < len(cells):
            yield ours, cells[column.number]


def _check_marks(cells: list[str], columns: Mapping[str, Column], may_group: bool) -> None:
    """Raise ValueError where a comma, or a point if they `may_group`, may be a decimal one or between thousands."""
    for ours, text in _numbers(cells, columns):
        shown = text[:MOST_CHARACTERS]
        if text.count(",") == 1 and "." not in text:
            raise ValueError(
                f"{ours} is {shown!r}: this comma may be a decimal one; write a point, or nothing"
            )
        if may_group and has_unclear_point(text):
            raise ValueError(
                f"{ours} is {shown!r}: this point may stand between thousands; write nothing, or one more decimal"
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
