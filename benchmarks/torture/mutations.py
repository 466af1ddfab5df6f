"""Ways to damage a file below the results."""

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from ddlbench.measurements.provenance import SUFFIX
from ddlbench.measurements.record import seal


@dataclass(frozen=True)
class Mutation:
    """What was done to a file.

    Attributes:
        kind: of the mutation.
        file: below the repository.
        wrong: its content then; None: it has none.
        changed: this file and those that were changed with it, below the repository.
    """

    kind: str
    file: str
    wrong: bytes | None
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.file}"


def mutate(root: Path, files: Sequence[Path], random: Random) -> Mutation:
    """Damage one of some files in one way, both drawn at random; another way where that changes nothing."""
    while True:
        file, kind = random.choice(files), random.choice(list(KINDS))
        alike = [each for each in files if each != file and each.suffix == file.suffix]
        before = {each: each.read_bytes() for each in (file, *alike)}
        times = {each: each.stat() for each in before}
        KINDS[kind](file, random, alike)
        changed = [each for each in before if not is_plain(each) or each.read_bytes() != before[each]]
        for each in filter(is_plain, before):  # a disk that fails does not tell by the time of its files
            os.utime(each, ns=(times[each].st_atime_ns, times[each].st_mtime_ns))
        if changed and not all(_says_the_same(before[each], each) for each in changed):
            wrong = file.read_bytes() if is_plain(file) else None
            names = tuple(str(each.relative_to(root)) for each in changed)
            return Mutation(kind, str(file.relative_to(root)), wrong, names)
        for each, content in before.items():
            each.write_bytes(content)


def is_plain(file: Path) -> bool:
    """Whether it is a regular file and no link."""
    return file.is_file() and not file.is_symlink()


def _says_the_same(before: bytes, file: Path) -> bool:
    """Whether JSON was only written in another way: 1E-5 for 1e-5."""
    try:
        return is_plain(file) and json.loads(file.read_bytes()) == json.loads(before)
    except ValueError:
        return False


def _flip(file: Path, random: Random, alike: Sequence[Path]) -> None:
    content = bytearray(file.read_bytes())
    if content:
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        file.write_bytes(content)


def _cut(file: Path, random: Random, alike: Sequence[Path]) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: random.randrange(max(1, len(content)))])


def _empty(file: Path, random: Random, alike: Sequence[Path]) -> None:
    file.write_bytes(b"")


def _delete(file: Path, random: Random, alike: Sequence[Path]) -> None:
    file.unlink()


def _swap(file: Path, random: Random, alike: Sequence[Path]) -> None:
    if alike:
        other = random.choice(alike)
        mine, theirs = file.read_bytes(), other.read_bytes()
        file.write_bytes(theirs)
        other.write_bytes(mine)


def _link(file: Path, random: Random, alike: Sequence[Path]) -> None:
    """A link to the same content elsewhere, which whoever has that place may change."""
    elsewhere = file.parent / f".{file.name}.elsewhere"
    shutil.move(file, elsewhere)
    file.symlink_to(elsewhere.name)


def _fifo(file: Path, random: Random, alike: Sequence[Path]) -> None:
    file.unlink()
    os.mkfifo(file)


def _forge(file: Path, random: Random, alike: Sequence[Path]) -> None:
    """Change what a file says so that it looks right by itself: its checksum is computed again."""
    if file.suffix == ".json":
        content = json.loads(file.read_bytes())
        is_sealed = content.pop("checksum", None) is not None
        changed = _forged(content, file, random, alike)
        file.write_text(json.dumps(seal(changed) if is_sealed else changed))
    elif file.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(file.read_text())))
        cells = [(row, column) for row in rows[1:] for column, cell in enumerate(row) if _is_number(cell)]
        if cells:
            row, column = random.choice(cells)
            row[column] = f"{float(row[column]) * 2 + 1:g}"
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerows(rows)
            file.write_text(out.getvalue())
    else:
        file.write_bytes(file.read_bytes() + b"\n")


def _forged(content: dict[str, Any], file: Path, random: Random, alike: Sequence[Path]) -> dict[str, Any]:
    if "step_times_ms" in content:
        others = [json.loads(each.read_bytes()) for each in alike if "store" in each.parts]
        other = random.choice([*others, content])
        if random.random() < 0.5:  # a measurement of another point, under this one's fingerprint
            return {**other, "fingerprint": content["fingerprint"]}
        return {
            **content,
            "step_times_ms": [[2 * time for time in rank] for rank in content["step_times_ms"]],
        }
    if file.name.endswith(SUFFIX):
        hashed = random.choice([content, *content["inputs"], *content["outputs"]])
        hashed["sha256"] = f"{random.getrandbits(256):064x}"
        return content
    listing = [point for point in content.get("points", []) if point.get("measurements")]
    if listing:
        random.choice(listing)["measurements"].pop()
    return content


def _is_number(cell: str) -> bool:
    try:
        return bool(float(cell) or True)
    except ValueError:
        return False


KINDS: dict[str, Callable[[Path, Random, Sequence[Path]], None]] = {
    "flip": _flip,
    "cut": _cut,
    "empty": _empty,
    "delete": _delete,
    "swap": _swap,
    "link": _link,
    "fifo": _fifo,
    "forge": _forge,
}
