"""What a part of the torture has counted: one row of the table, kept in a file after each try."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, say
from ddlbench.files import read_json, write_atomically

FOLDER = RESULTS / "torture"


@dataclass
class Tally:
    """A row of the table.

    Attributes:
        what: was tried, in words.
        at_least: how often the whole torture tries it, and what may be counted then.
        seed: of all that was drawn.
        counts: what was found wrong, by what it is; all should be 0.
        tried: how often it was tried.
        notes: what a reader must know beside the numbers.
        tries: a line for each.
        most: where a number other than 0 is allowed: how large what was counted may be.
        is_complete: False where a part could not be looked at, which the notes explain.
    """

    what: str
    at_least: str
    seed: int
    counts: dict[str, float]
    tried: int = 0
    notes: list[str] = field(default_factory=list)
    tries: list[str] = field(default_factory=list)
    most: float = 0
    is_complete: bool = True

    @property
    def is_good(self) -> bool:
        return self.is_complete and all(count <= self.most for count in self.counts.values())

    def add(self, line: str, found: Mapping[str, float]) -> None:
        """Count one more try, and say what became of it."""
        self.tried += 1
        for name, count in found.items():
            self.counts[name] += count
        self.tries.append(line)
        say(f"{self.what}: {self.tried}: {line}")

    def save(self, name: str) -> None:
        write_atomically(FOLDER / f"{name}.json", json.dumps(asdict(self), indent=1) + "\n")


def saved(names: Iterable[str]) -> list[Tally]:
    """The rows of those that have been tried."""
    files = [FOLDER / f"{name}.json" for name in names]
    return [tally_in(file) for file in files if file.is_file()]


def tally_in(file: Path) -> Tally:
    content: dict[str, Any] = read_json(file)
    return Tally(**content)


def table(tallies: Iterable[Tally]) -> str:
    """Markdown: a row for each, and below it what must be known beside the numbers."""
    lines = ["| what | at least | tried | found |", "|---|---|---|---|"]
    notes = []
    for each in tallies:
        found = "; ".join(f"{name}: {count:g}" for name, count in each.counts.items())
        found = found if each.is_good else f"**{found or 'not looked at'}**"
        lines.append(f"| {each.what} | {each.at_least} | {each.tried} (seed {each.seed}) | {found} |")
        notes += [f"- {each.what}: {note}" for note in each.notes]
    return "\n".join([*lines, "", *notes])
