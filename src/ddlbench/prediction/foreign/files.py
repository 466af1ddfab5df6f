"""Reading CSV and Parquet files from others: every size is bounded before anything of that size is read."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddlbench.errors import DdlbenchError
from ddlbench.system.regular_files import open_regular

if TYPE_CHECKING:
    from pyarrow import Array
    from pyarrow.parquet import ParquetFile

MOST_BYTES = 64 << 20  # of a file, and of what a Parquet file unpacks to
MOST_ROWS = 100_000
MOST_COLUMNS = 1000
MOST_CHARACTERS = 200  # of a cell of a Parquet file; more is no number and no name
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # zip, gzip, bzip2, xz, zstd
_PARQUET = b"PAR1"

Row = tuple[int, list[str]]


@dataclass(frozen=True)
class ForeignTable:
    """A table as texts.

    Attributes:
        header: names of the columns; they may be numbers, if the file names none.
        rows: line number (of a Parquet file: row number) and cells, of each row.
        mistakes: line number and what is wrong, of each line that is no row.
        counted: what those numbers count, `line` or `row`.
        may_have_decimal_commas: whether something else than commas separates the cells of a CSV.
    """

    header: list[str]
    rows: list[Row]
    counted: str
    mistakes: Sequence[tuple[int, str]] = ()
    may_have_decimal_commas: bool = False


def read_foreign(path: Path, header: list[str] | None = None) -> ForeignTable:
    """Read a table.

    Args:
        path: of a CSV (separated by commas, semicolons or tabs) or Parquet file.
        header: names of the columns, if the file has none.

    Returns:
        The table.

    Raises:
        DdlbenchError: the file cannot be read, is too large, is packed, or is no table; says what to do.
    """
    try:
        with open_regular(path, follow=True) as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DdlbenchError(f"{path}: cannot be read ({error.strerror or error})") from None
    if len(content) > MOST_BYTES:
        raise DdlbenchError(
            f"{path}: is larger than {MOST_BYTES >> 20} MiB, which a table of measurements is not.\n"
            "  Keep the columns and rows that matter, and import these."
        )
    if content.startswith(_PACKED):
        raise DdlbenchError(f"{path}: is a packed file; unpack it, and import the table in it")
    if content.startswith(_PARQUET):
        return _parquet(path, content)
    return _csv(path, content, header)


def _csv(path: Path, content: bytes, header: list[str] | None) -> ForeignTable:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DdlbenchError(f"{path}: line {line} is no text in UTF-8") from None
    first = text.split("\n", 1)[0]
    separator = max(",;\t", key=first.count)
    rows: list[Row] = []
    mistakes: list[tuple[int, str]] = []
    for number, row in enumerate(io.StringIO(text, newline=""), 1):
        if number > MOST_ROWS + 1:
            raise _too_long(path)
        try:
            cells = _cells(row, separator)
        except (csv.Error, ValueError) as error:
            if header is None and not rows:
                raise DdlbenchError(f"{path}: line {number} {error}") from None
            mistakes.append((number, str(error)))
            continue
        if any(cell.strip() for cell in cells):
            rows.append((number, cells))
    if header is None and rows:
        header = rows.pop(0)[1]
    if not header or not (rows or mistakes):
        raise DdlbenchError(f"{path}: has no rows below its header")
    if len(header) > MOST_COLUMNS:
        raise DdlbenchError(f"{path}: has {len(header)} columns; {MOST_COLUMNS} are the most")
    return ForeignTable([name.strip() for name in header], rows, "line", mistakes, separator != ",")


def _cells(line: str, separator: str) -> list[str]:
    """The cells of a line, which end there: a quote that is not closed would take the rows below it for its own."""
    cells = next(csv.reader([line.rstrip("\r\n") + "\n"], delimiter=separator))
    if cells and cells[-1].endswith("\n"):
        raise ValueError("has a quote that is not closed on the same line")
    return cells


def _parquet(path: Path, content: bytes) -> ForeignTable:
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        described = file.metadata
        if described.num_rows > MOST_ROWS:
            raise _too_long(path)
        if described.num_columns > MOST_COLUMNS:
            raise DdlbenchError(f"{path}: has {described.num_columns} columns; {MOST_COLUMNS} are the most")
        unpacked = sum(described.row_group(i).total_byte_size for i in range(described.num_row_groups))
        if unpacked > MOST_BYTES:
            raise DdlbenchError(f"{path}: unpacks to {unpacked >> 20} MiB; {MOST_BYTES >> 20} are the most")
        types = pyarrow.types
        texts = [
            each.name
            for each in file.schema_arrow
            if types.is_string(each.type) or types.is_large_string(each.type)
        ]
        # A text that is repeated in each row is stored once, and is kept so in memory.
        file = parquet.ParquetFile(io.BytesIO(content), read_dictionary=texts)
        header = list(file.schema_arrow.names)
        rows = list(_parquet_rows(path, file))
    except (
        pyarrow.ArrowException,
        OSError,
        ValueError,
        OverflowError,
        KeyError,
    ) as error:  # also of dates and zones
        raise DdlbenchError(f"{path}: this Parquet file cannot be read ({str(error)[:200]})") from None
    if not rows:
        raise DdlbenchError(f"{path}: has no rows")
    return ForeignTable(header, rows, "row")


def _parquet_rows(path: Path, file: "ParquetFile") -> Iterator[Row]:
    number = 0
    for batch in file.iter_batches(batch_size=1000):
        for values in zip(*map(_texts, batch.columns), strict=True):
            number += 1
            if number > MOST_ROWS:
                raise _too_long(path)
            yield number, list(values)


def _texts(column: "Array") -> list[str]:
    """The values of a column; one that is there many times is made a text once."""
    import pyarrow

    if pyarrow.types.is_nested(column.type):
        raise ValueError(f"a column holds {column.type}, not numbers or texts")
    encoded = column if pyarrow.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = [str(value)[:MOST_CHARACTERS] for value in encoded.dictionary.to_pylist()]
    return ["" if index is None else texts[index] for index in encoded.indices.to_pylist()]


def _too_long(path: Path) -> DdlbenchError:
    return DdlbenchError(f"{path}: has more than {MOST_ROWS} rows; keep those that matter, and import these")
