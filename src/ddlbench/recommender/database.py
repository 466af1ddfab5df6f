"""The measurements of all sources in SQLite: one transaction replaces what changed, and readers never wait for it.

It is made from the tables, which stay the only truth: measuring never waits for it, and it may be deleted at any time.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from zlib import crc32

from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_json
from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.foreign.imported import CELL
from ddlbench.prediction.measured import Knowledge, from_files
from ddlbench.recommender.sources import HERE, Source

BUSY_S = 30  # another process writes no longer than this
FILTERS = ("table_name", "model", "framework", "strategy", "workers")
NAMES = ("model", "framework", "strategy", "devices", "runtime", "image_shape")
_MEASURED = tuple(field.name for field in fields(Measured) if field.name != "cell")
_COLUMNS = (*CELL, *_MEASURED)
_SCHEMA = (
    "create table if not exists source"
    "(name text primary key, signature text, version text, per text, problem text);"
    f"create table if not exists measurement (table_name text, {', '.join(_COLUMNS)});"
    "create index if not exists by_table on measurement (table_name)"
)
_VERSION = crc32(_SCHEMA.encode()) >> 1  # a file of another schema is filled anew
_PAGE = """
with found as (
    select rowid as id, * from measurement
    where time_ms is not null
    and (:table_name is null or table_name = :table_name)
    and (:model is null or model = :model)
    and (:framework is null or framework = :framework)
    and (:strategy is null or strategy = :strategy)
    and (:workers is null or workers = :workers)
)
select total.count, page.* from (select count(*) as count from found) as total
left join (select * from found order by id limit :limit offset :offset) as page on true
order by page.id
"""


@dataclass(frozen=True)
class Stored:
    """What the database knows of a source.

    Attributes:
        name: of the source.
        version: of its content.
        per: what its times are of, `step` or `epoch`.
        problem: why it cannot be read; None: it could.
        count: measurements.
        says_vcpus: whether any of them says how many vCPUs its hosts have.
    """

    name: str
    version: str
    per: str
    problem: str | None
    count: int
    says_vcpus: bool


class Database:
    """Measurements by source.

    Attributes:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        """Name the file; `refresh` makes it.

        Args:
            path: of the file; processes may share it.
        """
        self.path = path

    def _make(self) -> None:
        """Make the file and its tables where there are none."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._connect("rwc")) as connection:
            connection.execute("pragma journal_mode=wal")
        with self._writing() as connection:
            if connection.execute("pragma user_version").fetchone() != (_VERSION,):
                connection.execute("drop table if exists measurement")
                connection.execute("drop table if exists source")
                connection.execute(f"pragma user_version = {_VERSION}")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)

    def has(self, sources: Mapping[str, Source]) -> bool:
        """Say whether all is there. It is not where somebody has removed the file, which is below logs/.

        Args:
            sources: all that there are now.

        Returns:
            Whether these are stored, as they are, and no others.
        """
        try:
            return self._signatures() == {name: source.signature for name, source in sources.items()}
        except sqlite3.OperationalError:  # no file, or no tables in it
            return False

    def refresh(self, sources: Mapping[str, Source]) -> list[Stored]:
        """Read anew what has changed, in one transaction. What is being written meanwhile stays as it is stored.

        Args:
            sources: all that there are now.

        Returns:
            What is stored of each, in order.
        """
        self._make()
        before = self._signatures()
        changed = {
            name: found
            for name, source in sources.items()
            if before.get(name) != source.signature and (found := _read(source)) and source.is_as_it_was()
        }
        with self._writing() as connection:
            for name in before.keys() - sources.keys():
                _remove(connection, name)
            for name, found in changed.items():
                _remove(connection, name)
                _insert(connection, sources[name], found)
        return self.stored()

    def stored(self) -> list[Stored]:
        """List the sources.

        Returns:
            What is stored of each: this checkout's first, then the others by name.
        """
        with closing(self._connect()) as connection:
            return [
                Stored(*row)
                for row in connection.execute(
                    "select name, version, per, problem, count(time_ms), count(vcpus) > 0 from source"
                    " left join measurement on table_name = name group by name order by name != ?, name",
                    [HERE],
                )
            ]

    def knowledge(self, name: str) -> tuple[str, Knowledge]:
        """Read all measurements of a source, as they were at one moment.

        Args:
            name: of the source.

        Returns:
            Their version, and what they say; empty if there is no such source.
        """
        with closing(self._connect()) as connection:
            connection.execute("begin")
            source = connection.execute("select version, per from source where name = ?", [name]).fetchone()
            rows = connection.execute(
                "select * from measurement where table_name = ? order by rowid", [name]
            ).fetchall()
        measured = [_measured(row) for _, *row in rows]
        fits = [each for each in measured if each.time_ms is not None]
        unfit = [each.cell for each in measured if each.time_ms is None]
        version, per = source or ("", "step")
        return version, Knowledge(fits, unfit, per)

    def page(self, filters: Mapping[str, Any], limit: int, offset: int) -> tuple[int, list[dict[str, Any]]]:
        """Read some measurements.

        Args:
            filters: values of columns in FILTERS.
            limit: the most rows to return.
            offset: rows to leave out before these.

        Returns:
            How many match, and the rows as JSON data.
        """
        if unknown := filters.keys() - set(FILTERS):
            raise ValueError(f"no filters: {', '.join(sorted(unknown))}")
        asked = {**dict.fromkeys(FILTERS), **filters, "limit": limit, "offset": offset}
        with closing(self._connect()) as connection:
            rows = connection.execute(_PAGE, asked).fetchall()
        # A page without rows is one line that has the total alone.
        return rows[0][0], [
            {"table": table, **dict(zip(_COLUMNS, values, strict=True))}
            for _, rowid, table, *values in rows
            if rowid is not None
        ]

    def names(self, source: str) -> dict[str, list[str]]:
        """List the names that a source's measurements have.

        Args:
            source: its name.

        Returns:
            Column -> its different values.
        """
        with closing(self._connect()) as connection:
            rows = connection.execute(
                "select distinct model, framework, strategy, devices, runtime, image_shape from measurement"
                " where table_name = ? and time_ms is not null",
                [source],
            ).fetchall()
        columns = zip(*rows, strict=True) if rows else [()] * len(NAMES)
        return {name: sorted({*column} - {"", None}) for name, column in zip(NAMES, columns, strict=True)}

    def _signatures(self) -> dict[str, str]:
        with closing(self._connect()) as connection:
            return dict(connection.execute("select name, signature from source"))

    def _connect(self, mode: str = "rw") -> sqlite3.Connection:
        """Connect; unless `mode` is `rwc`, a file that is gone is an error, and none without tables is made."""
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(address, timeout=BUSY_S, isolation_level=None, uri=True)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, which is undone where it fails."""
        with closing(self._connect()) as connection:
            connection.execute("begin immediate")
            try:
                yield connection
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")


def _read(source: Source) -> Knowledge | DdlbenchError:
    try:
        return from_files(source.files)
    except DdlbenchError as error:
        return error


def _remove(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("delete from measurement where table_name = ?", [name])
    connection.execute("delete from source where name = ?", [name])


def _insert(connection: sqlite3.Connection, source: Source, found: Knowledge | DdlbenchError) -> None:
    problem = str(found) if isinstance(found, DdlbenchError) else None
    known = found if isinstance(found, Knowledge) else Knowledge([], [], "step")
    rows = [_row(each) for each in known.measured]
    rows += [[*asdict(cell).values(), *[None] * len(_MEASURED)] for cell in known.unfit]
    connection.execute(
        "insert into source values (?, ?, ?, ?, ?)",
        [
            source.name,
            source.signature,
            sha256_json([known.per, rows, problem]),
            known.per,
            problem,
        ],
    )
    places = ", ".join("?" * (1 + len(_COLUMNS)))
    connection.executemany(
        f"insert into measurement values ({places})",  # nosec B608: question marks alone
        [[source.name, *row] for row in rows],
    )


def _row(measured: Measured) -> list[Any]:
    return [*asdict(measured.cell).values(), *(getattr(measured, name) for name in _MEASURED)]


def _measured(row: Sequence[Any]) -> Measured:
    cell = Cell(*row[: len(CELL)])
    return Measured(cell, *row[len(CELL) :])
