"""Measured cells from tables of measurements, as `measurements.tables` writes them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddlbench.devices.device import without_origin
from ddlbench.errors import DdlbenchError
from ddlbench.measurements.host_columns import is_short_of_memory, thread_error
from ddlbench.prediction.cell import Cell, Measured, within_limits
from ddlbench.prediction.foreign.imported import is_imported, read_imported

if TYPE_CHECKING:
    import pandas

NAMES = ("model", "image_shape", "framework", "strategy", "runtime")
OF_HOSTS_UNLIKE = ("sites", "uneven", "workers_per_host")  # what a cell says nothing of
# Half of an interval of 95 %, by the range of so many values: Student's t of the largest deviation with that range.
INTERVAL_OF_RANGE = {2: 12.706 / 2, 3: 4.303 / 3}
WIDEST = 1e6  # a factor to either side, which says as little as any larger one
FABRICS = {
    "emulated": "on emulated hosts",
    "loopback": "on the loopback interface of one machine",
    "ethernet": "on a cluster over Ethernet",
    "infiniband": "on a cluster over InfiniBand",
}
NEEDED = ("point_id", "status", "batch_size", "workers", "step_time_ms", "devices", *NAMES)


@dataclass(frozen=True)
class Knowledge:
    """What tables say.

    Attributes:
        measured: cells with their times.
        unfit: cells that did not fit into a host's memory, with as much as it really had.
        per: what the times are of, `step` or `epoch`.
    """

    measured: list[Measured]
    unfit: list[Cell]
    per: str

    def epoch_steps(self, cell: Cell) -> float | None:
        """Count how many of what was timed an epoch has.

        Args:
            cell: any.

        Returns:
            Steps; 1 where epochs were timed. Else as studies of its model and image shape say, with its devices if one
            does; their steps hold at batches with which they were measured. None: none says that, or they differ.
        """
        if self.per == "epoch":
            return 1.0
        training = (cell.model, cell.image_shape)
        same = [each for each in self.measured if (each.cell.model, each.cell.image_shape) == training]
        on_its_devices = [each for each in same if each.cell.devices == cell.devices]
        said = _epoch_steps(on_its_devices, cell.batch_size) or _epoch_steps(same, cell.batch_size)
        return said.pop() if len(said) == 1 else None


def _epoch_steps(measured: Iterable[Measured], batch_size: float) -> set[float | None]:
    """All numbers of steps that an epoch has with a batch, as studies say."""
    return {
        each.epoch_images / batch_size if each.epoch_images else each.epoch_steps
        for each in measured
        if each.epoch_images or (each.epoch_steps and each.cell.batch_size == batch_size)
    }


def from_files(paths: Sequence[Path]) -> Knowledge:
    """Read tables of measurements, and tables that `ddlbench import` wrote.

    Args:
        paths: CSV files; one that is there twice counts once.

    Returns:
        What they say together.

    Raises:
        DdlbenchError: a file cannot be read, or times are of steps in one and of epochs in another.
    """
    paths = list({path.resolve(): path for path in paths}.values())
    foreign = [path for path in paths if is_imported(path)]
    ours = [path for path in paths if path not in foreign]
    measured, unfit = (from_tables(ours), _unfit(ours)) if ours else ([], [])
    kinds = {"step": str(ours[0])} if ours else {}
    for path in foreign:
        more, per = read_imported(path)
        measured += more
        kinds[per] = str(path)
    if len(kinds) > 1:
        raise DdlbenchError(
            f"times are of steps in {kinds['step']} and of epochs in {kinds['epoch']}.\n"
            "  Import the latter with  --images N  (images of an epoch), or use one of them"
        )
    return Knowledge(measured, unfit, next(iter(kinds), "step"))


def from_tables(paths: Iterable[Path]) -> list[Measured]:
    """Read measured cells of tables. A point that is in several tables counts once.

    Args:
        paths: CSV files, as in results/tables.

    Returns:
        The cells, in the order of their ids. Points between sites have no one link, and are left out; so are those of
        uneven hosts and of several workers a host. A table of telemetry says nothing of steps.

    Raises:
        DdlbenchError: a table cannot be read, lacks a column, or has no number where one is expected; names it.
    """
    found: dict[str, Measured] = {}
    for path, number, row in _rows(paths):
        is_an_epoch = not _is_empty(row.get("epoch"))
        if row["status"] == "measured" and not is_an_epoch and not _is_empty(row["step_time_ms"]):
            with _named(path, number):
                found.setdefault(str(row["point_id"]), _measured(row, path))
    return [found[point] for point in sorted(found)]


def _unfit(paths: Iterable[Path]) -> list[Cell]:
    """Cells that did not fit, with what a host had: less than in the study says nothing of a machine with that much."""
    found: list[Cell] = []
    for path, number, row in _rows(paths):
        if row["status"] == "does_not_fit":
            had = {"memory_gb": row["host_memory_gb"]} if is_short_of_memory(row) else {}
            with _named(path, number):
                found.append(_cell(row | had))
    return found


def _rows(paths: Iterable[Path]) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    """Rows, by number, of points whose hosts are alike, with one worker each, and have one link, or none."""
    for path in paths:
        for number, row in enumerate(_read(path).to_dict("records"), start=1):
            if all(_is_empty(row.get(key)) for key in OF_HOSTS_UNLIKE):
                yield path, number, {str(key): value for key, value in row.items()}


@contextmanager
def _named(path: Path, number: int) -> Iterator[None]:
    """Name the row in which there is no number where one is expected."""
    try:
        yield
    except ValueError as error:
        raise DdlbenchError(f"{path}: row {number} below the header: {error}") from None


def _read(path: Path) -> "pandas.DataFrame":
    import pandas

    try:
        table = pandas.read_csv(path, keep_default_na=True)
    except (OSError, ValueError) as error:
        raise DdlbenchError(f"{path}: this table cannot be read ({error})") from None
    if _is_of_telemetry(table):
        return table.iloc[:0]
    if lacking := [name for name in NEEDED if name not in table.columns]:
        raise DdlbenchError(f"{path}: this table of measurements lacks {', '.join(lacking)}")
    return table


def _is_of_telemetry(table: "pandas.DataFrame") -> bool:
    """Whether it says what nodes do over time, or why that was not recorded; it lies beside the others."""
    if "status" not in table or "step_time_ms" in table:
        return False
    return "node" in table or "measured" not in set(table["status"])


def _cell(row: Mapping[str, Any]) -> Cell:
    """The cell of a row; where compute is replayed, the replayed device computes, not this machine."""
    return Cell(
        batch_size=_needed(row, "batch_size"),
        workers=int(_needed(row, "workers")),
        latency_ms=_number(row, "latency_ms") or 0.0,
        bandwidth_mbit=_number(row, "bandwidth_mbit"),
        loss_percent=_number(row, "loss_percent") or 0.0,
        vcpus=_number(row, "vcpus"),
        host_count=int(_number(row, "host_count") or 0) or None,
        memory_gb=_number(row, "memory_gb"),
        devices=str(row["devices"]) if _is_empty(row.get("replay")) else without_origin(str(row["replay"])),
        **{name: str(row[name]) for name in NAMES},
    )


def _measured(row: Mapping[str, Any], path: Path) -> Measured:
    low_ms, high_ms = _interval(row)
    error = thread_error(row)  # cells are compared whose hosts have threads of different speeds
    return Measured(
        _cell(row),
        _needed(row, "step_time_ms"),
        low_ms and low_ms / error,
        high_ms and high_ms * error,
        _number(row, "test_accuracy_percent"),
        f"{path.stem}: {row['point_id']}",
        _number(row, "replayed_compute_ms"),
        _number(row, "epoch_images"),
        _number(row, "epoch_steps"),
        _origin(row),
    )


def _origin(row: Mapping[str, Any]) -> str:
    """What was real of a measurement, and what was not: a replayed device has computed nothing."""
    of_compute = (
        "" if _is_empty(row.get("replay")) else f"with compute replayed by a profile of {row['replay']}"
    )
    return " ".join(filter(None, [FABRICS.get(str(row.get("fabric")), ""), of_compute]))


def _interval(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The interval of 95 % of a step's time; the range of few repetitions is made one."""
    low_ms, high_ms = (_number(row, f"step_time_ms_{end}") for end in ("low", "high"))
    if row.get("bounds") != "range" or not low_ms or not high_ms:
        return low_ms, high_ms
    share = INTERVAL_OF_RANGE[3 if _number(row, "repetitions") == 3 else 2]
    factor = math.exp(min(share * math.log(high_ms / low_ms), math.log(WIDEST)))
    time_ms = _needed(row, "step_time_ms")
    return time_ms / factor, time_ms * factor


def _needed(row: Mapping[str, Any], name: str) -> float:
    value = _number(row, name)
    if value is None:
        raise ValueError(f"{name} is empty, expected a number")
    return value


def _number(row: Mapping[str, Any], name: str) -> float | None:
    """A finite number within the column's limits; None: the row says none. Raises ValueError."""
    text: Any = row.get(name)
    if _is_empty(text):
        return None
    value = math.nan
    with suppress(ValueError):
        value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{name} is {str(text)[:40]!r}, expected a number")
    return within_limits(name, value)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
