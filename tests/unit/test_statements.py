"""What two versions of a package say: the same after rewording and moving, something else after a change."""

from pathlib import Path

import pytest

from ddlbench.code.closure import Package

LIBRARY = '''
"""How to count."""

from __future__ import annotations

import json
from pathlib import Path

STEP = 2
SAMPLER = "p.sampler"


class Wrong(ValueError):
    """Something is wrong."""

    limit: int = 3


def doubled(value: int, times: int = 2) -> int:
    """Twice the value."""
    if value < 0:
        raise Wrong(f"{value} is negative")  # nobody asks for that
    return times * value


def kept(values: list[int], file: Path) -> None:
    """Write the values."""
    file.write_text(json.dumps(values))
'''
MAIN = """
from p.library import STEP, doubled


def run(value: int) -> int:
    return doubled(value) + STEP
"""
OTHER = "def doubled(value, times=2):\n    return value << 1\n"
FILES = {"main": MAIN, "library": LIBRARY, "other": OTHER, "sampler": "PERIOD_S = 1\n"}


def code(folder: Path, files: dict[str, str], *roots: str) -> str:
    """The hash of what a package `p` with these files says."""
    package = folder / str(len(list(folder.iterdir()))) / "p"
    for name, text in files.items():
        file = package / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Package(package).code("", roots or ("p.main",)).sha256


def edited(name: str, before: str, after: str) -> dict[str, str]:
    assert before in FILES[name]
    return {**FILES, name: FILES[name].replace(before, after)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""How to count."""', '"""How numbers are counted."""'),
        ('    """Twice the value."""\n', ""),
        ('    """Something is wrong."""\n', "    # Something is wrong.\n"),
        ("  # nobody asks for that", ""),
        ("return times * value", "return (\n        times\n        * value\n    )"),
        ("(value: int, times: int = 2) -> int", '(value: "float", times=2)'),
        ("STEP = 2", "STEP: int = 2"),
        ('f"{value} is negative"', '"expected a number from 0 on"'),
        ("import json\n", "import json\nimport os\n"),
        ("STEP = 2\n", '__all__ = ["STEP"]\nSTEP = 2\n'),
        ("STEP = 2\n", 'STEP = 2\nif __name__ == "__main__":\n    print(STEP)\n'),
        ("STEP = 2\n", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.other\nSTEP = 2\n"),
    ],
)
def test_what_is_for_readers_does_not_count(tmp_path, before, after):
    assert code(tmp_path, FILES) == code(tmp_path, edited("library", before, after))


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("library", "STEP = 2", "STEP = 3"),
        ("library", "times * value", "times + value"),
        ("library", "times: int = 2", "times: int = 4"),
        ("library", "value < 0", "value <= 0"),
        ("library", "limit: int", "limit: float"),
        ("library", "raise Wrong(", "raise ValueError("),
        ("library", "import json\n", "import pickle as json\n"),
        ("library", "(value: int, times", "(value: int, *, times"),
        ("main", "doubled(value) + STEP", "doubled(value, STEP)"),
        ("sampler", "1", "2"),
    ],
)
def test_what_is_done_counts(tmp_path, name, before, after):
    assert code(tmp_path, FILES) != code(tmp_path, edited(name, before, after))


def test_words_that_are_not_inside_raise_count(tmp_path):
    first, other = ({"main": f'def say():\n    print("{words}")\n'} for words in ("so far", "up to now"))
    assert code(tmp_path, first) != code(tmp_path, other)


def test_another_function_of_the_same_name_counts(tmp_path):
    roots = ("p.main", "p.other")
    changed = edited(
        "main",
        "from p.library import STEP, doubled",
        "from p.library import STEP\nfrom p.other import doubled",
    )
    assert code(tmp_path, FILES, *roots) != code(tmp_path, changed, *roots)


@pytest.mark.parametrize("name", ["counting", "room.library"])
def test_renaming_or_moving_a_file_changes_nothing(tmp_path, name):
    moved = {**edited("main", "p.library", f"p.{name}"), name: LIBRARY}
    del moved["library"]
    assert code(tmp_path, FILES) == code(tmp_path, moved)


def test_moving_what_is_started_by_its_name_changes_nothing(tmp_path):
    moved = {**edited("library", '"p.sampler"', '"p.room.watch"'), "room.watch": FILES["sampler"]}
    del moved["sampler"]
    assert code(tmp_path, FILES) == code(tmp_path, moved)


def test_splitting_a_file_changes_nothing(tmp_path):
    head, tail = LIBRARY.split("def kept")
    imports = "import json\nfrom pathlib import Path\n"
    parts = {
        **FILES,
        "library": head.replace("import json\n", "from p.files import kept\n"),
        "files": f"{imports}def kept{tail}",
    }
    assert code(tmp_path, FILES) == code(tmp_path, parts)


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("from p import library", "library.doubled"),
        ("from p import library as counting", "counting.doubled"),
        ("import p.library as library", "library.doubled"),
    ],
)
def test_the_way_in_which_a_name_of_ours_is_imported_does_not_count(tmp_path, imports, name):
    changed = {
        **FILES,
        "main": MAIN.replace(
            "from p.library import STEP, doubled", f"from p.library import STEP\n{imports}"
        ).replace("doubled(value)", f"{name}(value)"),
    }
    assert code(tmp_path, FILES) == code(tmp_path, changed)


def test_names_are_followed_through_modules_that_hand_them_on(tmp_path):
    files = {**FILES, "room.__init__": "from p.library import doubled\n"}
    files["main"] = MAIN.replace(
        "from p.library import STEP, doubled", "from p.library import STEP\nfrom p.room import doubled"
    )
    assert code(tmp_path, FILES) == code(tmp_path, files)


def test_a_missing_key_and_a_missing_default_are_not_the_constant_none(tmp_path):
    first, second = {"main": "x = {**a}\n"}, {"main": "x = {None: a}\n"}
    assert code(tmp_path, first) != code(tmp_path, second)
    first, second = {"main": "def f(*, a, b=None): ...\n"}, {"main": "def f(*, a=None, b): ...\n"}
    assert code(tmp_path, first) != code(tmp_path, second)


EVERYTHING = """
async def f(a, /, b=1.5e10, *c, d: int = -3, **e):
    with open(f"{a!r:>{b}}" f"é{{{b}" "tail", "rb") as file, file as g:
        match a:
            case {"x": [1, *rest], **more} if (y := a.b[1:2, ...]) and not more:
                w = [lambda z: g(z) async for z in rest if z in {1, *c}]
            case str() | None as h:
                global w
                del w, e["\\u2028"]
    try:
        assert 0x10 == 1_6 is not b"\\x00", "why"
    except* (ValueError, OSError) as error:
        raise error from None
    finally:
        yield
"""


def test_the_hash_is_the_same_in_every_version_of_python(tmp_path):
    written_down = "edd2e64a10b6a9d8b710771ed53dcc379af90ac477f3e0771873bb7c4000c873"
    assert code(tmp_path, {"main": EVERYTHING}) == written_down
