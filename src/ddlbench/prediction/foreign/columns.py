"""Which column of a foreign table is what, in which unit: by its name, or as somebody says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ddlbench.errors import DdlbenchError, nearest
from ddlbench.prediction.foreign.quantities import MICRO, UNITS, unit_of
from ddlbench.prediction.question import Unanswerable

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
TIMES = ("step_time", "epoch_time")
_BYTES = re.compile(r"[kKMG]B(ps|/s)\W*$")


class UnknownColumn(Unanswerable):
    """A column of ours that there is not."""

    exit_code = 2


@dataclass(frozen=True)
class Column:
    """Where a quantity is.

    Attributes:
        number: of the column, from 0.
        name: that the table has for it.
        unit: of values without one; None: they are plain numbers.
    """

    number: int
    name: str
    unit: str | None


def given_column(text: str) -> tuple[str, str]:
    """Read what somebody says of a column.

    Args:
        text: `OURS=NAME`.

    Returns:
        The column of ours, and the name of the table's.

    Raises:
        UnknownColumn: there is no such column of ours; lists those that there are.
    """
    ours, equals, name = text.partition("=")
    if not equals or ours not in ALIASES:
        raise UnknownColumn(
            "column",
            f"{text[:80]!r} is not COLUMN=NAME with one of {', '.join(ALIASES)}{nearest(ours[:80], ALIASES)}",
        )
    return ours, name


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
        unit = _unit_of(ours, name, path) or UNIT_WITHOUT_NAME.get(ours)
        found[ours] = Column(header.index(name), name, unit)
    for number, name in enumerate(header):
        ours, unit = _meaning(name)
        if not ours or ours in given:
            continue
        if ours in found:
            raise DdlbenchError(
                f"{path}: the columns {found[ours].name!r} and {name!r} may both be {ours}.\n"
                f"  Say which:  --column {ours}={name!r}"
            )
        found[ours] = Column(number, name, unit or UNIT_WITHOUT_NAME.get(ours))
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
    if kind == "rate" and _BYTES.search(name):
        raise DdlbenchError(
            f"{path}: {name!r} may be in bytes a second.\n"
            f"  Make them bits, and rename it in the table, as  {ours}_mbit"
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
    plain = name.strip().lower().translate(MICRO)
    is_in_brackets = plain.endswith((")", "]"))
    words = re.sub(r"[^a-z0-9%/]+", "_", plain).strip("_")
    words = re.sub(r"(?<=bit)_(per_)?s$", "/s", words)
    stem, _, last = words.rpartition("_")
    is_clear = (last != "min" or is_in_brackets) and not _BYTES.search(name)  # else a minimum, or bytes
    unit = unit_of(last) if stem and is_clear else None
    return (stem, unit) if unit else (words, None)
