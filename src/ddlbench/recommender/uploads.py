"""Tables that somebody sends: checked row by row, and taken over whole or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddlbench.errors import DdlbenchError
from ddlbench.files import create_once
from ddlbench.prediction.foreign.columns import given_column
from ddlbench.prediction.foreign.files import read_foreign
from ddlbench.prediction.foreign.imported import as_csv
from ddlbench.prediction.foreign.table import Imported, import_table
from ddlbench.prediction.question import Unanswerable
from ddlbench.recommender.sources import HERE

MOST_TABLES = 200
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}"


class BadRows(DdlbenchError):
    """Rows with mistakes, because of which nothing was taken over.

    Attributes:
        mistakes: number of the line, and what is wrong there.
    """

    def __init__(self, mistakes: Sequence[tuple[int, str]]) -> None:
        """Name the rows.

        Args:
            mistakes: number of the line, and what is wrong there.
        """
        super().__init__(f"{len(mistakes)} rows have mistakes; nothing was imported")
        self.mistakes = mistakes


class TakenName(DdlbenchError):
    """There is another table of that name, or there are too many."""


@dataclass(frozen=True)
class Upload:
    """How a table that is sent shall be taken over.

    Attributes:
        name: that it gets.
        columns: `OURS=NAME`, where its names do not tell.
        header: its columns' names, if it has none, with commas between them.
        images: of an epoch; None: all epochs have equally many steps.
        leaves_out: whether rows with mistakes are left out; else nothing is taken over if there are any.
    """

    name: str
    columns: Sequence[str]
    header: str | None
    images: float | None
    leaves_out: bool


def checked(upload: Upload, file: Path, folder: Path) -> Imported:
    """Read a table that was sent; nothing is taken over yet.

    Args:
        upload: how.
        file: with its content.
        folder: of imported tables.

    Returns:
        What comes of it.

    Raises:
        BadRows: rows have mistakes.
        TakenName: there is a table of that name already.
        Unanswerable: a column is named wrong.
        DdlbenchError: the file is no table; says why.
    """
    if upload.name == HERE:
        raise TakenName(f"{HERE!r} is what was measured here: choose another name")
    if (output := _output(upload, folder)).exists():
        raise TakenName(f"there is a table {upload.name!r} already: choose another name, or delete {output}")
    if len(list(folder.glob("*.csv"))) >= MOST_TABLES:
        raise TakenName(f"there are {MOST_TABLES} imported tables already: delete some in {folder}")
    shown = Path(upload.name)
    try:
        table = read_foreign(file, upload.header.split(",") if upload.header else None)
        found = import_table(
            table, shown, given=dict(map(given_column, upload.columns)), images=upload.images
        )
    except Unanswerable:
        raise
    except DdlbenchError as error:
        raise DdlbenchError(str(error).replace(str(file), upload.name)) from None
    if found.mistakes and not upload.leaves_out:
        raise BadRows(found.mistakes)
    return found


def take_over(upload: Upload, found: Imported, folder: Path) -> None:
    """Take over a table that was checked.

    Args:
        upload: how.
        found: what came of it.
        folder: of imported tables, where it becomes <name>.csv in one step.

    Raises:
        TakenName: there is a table of that name already.
    """
    if not create_once(_output(upload, folder), as_csv(found.measured, found.per)):
        raise TakenName(f"there is a table {upload.name!r} already: choose another name")


def _output(upload: Upload, folder: Path) -> Path:
    return folder / f"{upload.name}.csv"
