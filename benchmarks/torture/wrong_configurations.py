"""Ways to make a configuration or a file of it wrong, drawn at random; and ways that may be right."""

import os
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml

Place = tuple[Any, ...]
NAMED_BY_USERS = {  # what stands in these has any name
    "config/links.yaml": ((),),
    "config/sites.yaml": ((), ("*", "sites")),
    "study": (("hosts",), ("grids",), ("figures",)),
}
TEXT = (
    "title",
    "text",
    "authors",
    "where",
    "source",
    "caption",
    "category",
    "key",
    "year",
    "expects",
    "paper",
)
NAMES = (
    "model",
    "dataset",
    "framework",
    "strategy",
    "link",
    "hosts",
    "runtime",
    "devices",
    "fabric",
    "lan",
    "x",
    "y",
)


@dataclass(frozen=True)
class Try:
    """One file or command line that was changed.

    Attributes:
        words: what was done to what.
        is_wrong: whether nobody can have meant it. What may be right must end without a trace, however it ends.
        argv: a command line to try instead of the usual one.
    """

    words: str
    is_wrong: bool
    argv: tuple[str, ...] = ()


def change_values(root: Path, file: str, random: Random) -> Try:
    """Change one value or key of a YAML file."""
    path = root / file
    content = yaml.safe_load(path.read_text())
    kinds = list(VALUES)
    places: list[Place] = []
    while not places:  # not every file has something for each kind
        kind = kinds.pop(random.randrange(len(kinds)))
        is_wrong, change = VALUES[kind]
        places = [
            place for place in _places(content) if place and change(deepcopy(content), place, file, random)
        ]
    place = random.choice(places)
    change(content, place, file, random)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return Try(f"{file}: {kind} at {'.'.join(map(str, place))}", is_wrong)


def change_text(root: Path, file: str, random: Random) -> Try:
    """Change the text of a file, or put something else in its place."""
    path = root / file
    kind = random.choice(list(TEXTS))
    is_wrong, change = TEXTS[kind]
    change(path, random)
    return Try(f"{file}: {kind}", is_wrong)


def _places(content: Any, place: Place = ()) -> Iterator[Place]:
    yield place
    inner = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    for key, value in inner:
        yield from _places(value, (*place, key))


def _at(content: Any, place: Place) -> Any:
    for key in place:
        content = content[key]
    return content


def _put(content: Any, place: Place, value: Any) -> bool:
    _at(content, place[:-1])[place[-1]] = value
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(place: Place) -> bool:
    return any(word in TEXT for word in place)


def _replaced(value: Any) -> Callable[..., bool]:
    """A number by something that is none."""

    def change(content: Any, place: Place, file: str, random: Random) -> bool:
        return _is_number(_at(content, place)) and not _is_text(place) and _put(content, place, value)

    return change


def _negated(content: Any, place: Place, file: str, random: Random) -> bool:
    value = _at(content, place)
    return _is_number(value) and not _is_text(place) and _put(content, place, -value if value else -1)


def _block(content: Any, place: Place, file: str, random: Random) -> bool:
    return not isinstance(_at(content, place), dict | list | None.__class__) and _put(
        content, place, {"nonsense": 1}
    )


def _misspelt(content: Any, place: Place, file: str, random: Random) -> bool:
    """A key that the file's format knows, with one letter too many beside it."""
    kind = file if file in NAMED_BY_USERS else "study" if "/studies/" in file else ""
    around = place[:-1]
    free = any(
        len(pattern) == len(around) and all(a in ("*", b) for a, b in zip(pattern, around, strict=True))
        for pattern in NAMED_BY_USERS.get(kind, ())
    )
    parent = _at(content, around)
    if free or not isinstance(parent, dict) or _is_text(around):
        return False
    parent[f"{place[-1]}x"] = parent[place[-1]]
    return True


def _unknown(content: Any, place: Place, file: str, random: Random) -> bool:
    """A name of nothing."""
    named = [word for word in place if isinstance(word, str)]
    is_name = isinstance(_at(content, place), str) and named and named[-1] in NAMES
    return bool(is_name) and _put(content, place, "no-such-thing")


def _deleted(content: Any, place: Place, file: str, random: Random) -> bool:
    del _at(content, place[:-1])[place[-1]]
    return True


def _scaled(content: Any, place: Place, file: str, random: Random) -> bool:
    value = _at(content, place)
    return _is_number(value) and _put(content, place, value * random.choice([0, 0.1, 10, 1e6]))


def _nothing(content: Any, place: Place, file: str, random: Random) -> bool:
    return _put(content, place, random.choice([None, [], {}, "", True]))


VALUES: Mapping[str, tuple[bool, Callable[..., bool]]] = {
    "a key of another name": (True, _misspelt),
    "a block in place of a value": (True, _block),
    "a word in place of a number": (True, _replaced("many")),
    "no number": (True, _replaced(float("nan"))),
    "an endless number": (True, _replaced(float("inf"))),
    "a negative number": (True, _negated),
    "an unknown name": (True, _unknown),
    "something deleted": (False, _deleted),
    "another number": (False, _scaled),
    "nothing": (False, _nothing),
}


def _appended(text: bytes) -> Callable[[Path, Random], None]:
    return lambda path, random: void(path.write_bytes(path.read_bytes() + text))


def _byte_changed(path: Path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] = random.randrange(256)
    path.write_bytes(bytes(content))


def _line_deleted(path: Path, random: Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines.pop(random.randrange(len(lines)))
    path.write_bytes(b"".join(lines))


def _cut(path: Path, random: Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content))])


def _line_twice(path: Path, random: Random) -> None:
    """A key of the top level, twice."""
    lines = path.read_bytes().splitlines(keepends=True)
    tops = [line for line in lines if line[:1].isalpha() and b":" in line]
    path.write_bytes(path.read_bytes() + random.choice(tops).split(b":")[0] + b": 1\n")


def _in_its_place(make: Callable[[Path], object]) -> Callable[[Path, Random], None]:
    def change(path: Path, random: Random) -> None:
        path.unlink()
        make(path)

    return change


def void(value: object) -> None:
    """Do nothing with a value."""


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 31)


def _bomb(path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 12)]
    path.write_text("\n".join(lines))


TEXTS: Mapping[str, tuple[bool, Callable[[Path, Random], None]]] = {
    "an open bracket": (True, _appended(b"\nkey: [1, 2\n")),
    "bytes of no alphabet": (True, _appended(b"\n\xff\xfe\xfa\n")),
    "a control character": (True, _appended(b"\n# \x00\x07\n")),
    "a key twice": (True, _line_twice),
    "deeply nested": (True, _appended(b"\nkey: " + b"[" * 100_000)),
    "missing": (True, _in_its_place(void)),
    "empty": (True, _in_its_place(Path.touch)),
    "a folder": (True, _in_its_place(Path.mkdir)),
    "a pipe": (True, _in_its_place(os.mkfifo)),
    "an endless file": (True, _in_its_place(lambda path: path.symlink_to("/dev/zero"))),
    "a link to itself": (True, _in_its_place(lambda path: path.symlink_to(path.name))),
    "two gigabytes of nothing": (True, _in_its_place(_sparse)),
    "aliases of aliases": (True, _in_its_place(_bomb)),
    "a byte changed": (False, _byte_changed),
    "a line deleted": (False, _line_deleted),
    "cut": (False, _cut),
}
