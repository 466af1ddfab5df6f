"""What somebody asks, completed by what was measured: the cells that there are to choose from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from ddlbench.errors import DdlbenchError, nearest
from ddlbench.prediction.cell import Cell, Measured

MOST_OPTIONS = 256  # of workers, frameworks and strategies that are compared at once
TRAINING = ("model", "devices", "runtime", "image_shape")
NAMES = (*TRAINING, "framework", "strategy")
# Of what the question does not say, that is taken which was measured together most often; beside what is trained, by
# the question's numbers.
TOGETHER = (("vcpus", "host_count", "memory_gb"), ("bandwidth_mbit", "latency_ms", "loss_percent"))

Value = float | str | None  # of a key of a Cell


class Unanswerable(DdlbenchError):
    """A question that cannot be answered as it is asked."""

    exit_code = 1

    def __init__(self, key: str, problem: str, advice: str = "") -> None:
        """Say what is wrong.

        Args:
            key: what of the question is wrong or missing.
            problem: what is wrong with it.
            advice: what to say on the command line instead; empty: nothing can be.
        """
        super().__init__(f"{problem}.  {advice}" if advice else problem)
        self.key, self.problem = key, problem


@dataclass(frozen=True)
class Choices:
    """The cells to choose from.

    Attributes:
        cells: each with other workers, framework or strategy.
        assumed: what the question did not say, and what was taken.
    """

    cells: tuple[Cell, ...]
    assumed: Mapping[str, str]


def choices(measured: Sequence[Measured], given: Mapping[str, Value], workers: Sequence[int] = ()) -> Choices:
    """List what there is to choose from.

    Args:
        measured: cells with their times.
        given: keys of a Cell with their values, `batch_size` among them. Without a framework or strategy all
            measured ones are there to choose from; of all else, what was measured most often: what is trained by names
            alone, hosts and link with such numbers as are given if any was.
        workers: numbers to choose from; none: from 1 to the most that were measured, or those that were measured if
            that would be too many choices.

    Returns:
        The choices.

    Raises:
        Unanswerable: a name was never measured; lists those that were. Or nobody knows the hosts' vCPUs that are
            said, or there are too many choices.
    """
    known: dict[str, Value] = {name: value for name, value in given.items() if value is not None}
    cells = [each.cell for each in measured]
    for name in NAMES:
        if name in known:
            cells = _with(cells, name, known)
    if "vcpus" in known and not any(_values(cells, "vcpus")):
        raise Unanswerable("vcpus", "this table does not say how many vCPUs its hosts have")
    usual = _usual(cells, known)
    differing = {name for name in usual if len({*_values(cells, name)}) > 1}
    known |= usual
    cells = [cell for cell in cells if all(getattr(cell, name) == known[name] for name in TRAINING)]
    systems = sorted({(cell.framework, cell.strategy) for cell in cells})
    asked = Cell(1.0, 1)
    asked = replace(asked, **{field.name: known[field.name] for field in fields(Cell) if field.name in known})  # type: ignore[arg-type]
    were_measured = {*_values(cells, "workers")}
    numbers = dict.fromkeys(workers) or range(1, max(were_measured) + 1)
    counts = [count for count in numbers if count <= asked.batch_size]
    if not workers and len(systems) * len(counts) > MOST_OPTIONS:
        counts = [count for count in counts if count in were_measured] or counts
    if not counts:
        raise Unanswerable(
            "workers", f"a batch of {asked.batch_size:g} has too few images for {min(workers)} workers"
        )
    if (options := len(systems) * len(counts)) > MOST_OPTIONS:
        raise Unanswerable(
            "workers", f"{options} options are too many to compare; {MOST_OPTIONS} are the most"
        )
    found = [
        replace(asked, framework=framework, strategy=strategy, workers=count)
        for framework, strategy in systems
        for count in counts
    ]
    if not any(cell.has_server for cell in found):
        differing -= {"host_count"}  # which says nothing but where the server is
    assumed = {
        name: _in_words(usual[name]) for name in usual if name in differing and usual[name] is not None
    }
    return Choices(tuple(found), assumed)


def _with(cells: list[Cell], name: str, said: Mapping[str, Value]) -> list[Cell]:
    """Those cells, which have the names that are said before it, that have this one, too."""
    value, values = str(said[name]), _values(cells, name)
    if found := [cell for cell, own in zip(cells, values, strict=True) if own == value]:
        return found
    if not (known := sorted({*values} - {""})):
        raise Unanswerable(name, f"this table names no {name}")
    before = [f"{each} {said[each]}" for each in NAMES[: NAMES.index(name)] if each in said]
    others = f" with {', '.join(before)}" if before else ""
    raise Unanswerable(
        name,
        f"{name} {value!r} was not measured{others}{nearest(value, known)}; measured: {', '.join(known)}",
    )


def _values(cells: Sequence[Cell], name: str) -> list[Any]:
    return list(map(attrgetter(name), cells))


def _usual(cells: list[Cell], known: Mapping[str, Value]) -> dict[str, Value]:
    """What is not said, as it was measured together most often; hosts and link with such numbers as are said.

    What is trained is no matter of numbers: each batch size would be another model's.
    """
    alike = [cell for cell in cells if not cell.is_alone] or cells  # the link of one alone says nothing
    found, alike = _most_often(alike, TRAINING, known)
    for name, value in known.items():
        alike = [cell for cell in alike if getattr(cell, name) == value] or alike
    for names in TOGETHER:
        more, alike = _most_often(alike, names, known)
        found |= more
    return found


def _most_often(
    cells: list[Cell], names: Sequence[str], known: Mapping[str, Value]
) -> tuple[dict[str, Value], list[Cell]]:
    """The values of names that are not known, as they are together most often; and the cells that have them."""
    wanted = [name for name in names if name not in known]
    together = [tuple(getattr(cell, name) for name in wanted) for cell in cells]
    ((usual, _),) = Counter(together).most_common(1)
    have = [cell for cell, values in zip(cells, together, strict=True) if values == usual]
    return dict(zip(wanted, usual, strict=True)), have


def _in_words(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) or "unnamed"
