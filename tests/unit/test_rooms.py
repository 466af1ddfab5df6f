"""Rooms and modules that can be read: few modules in a folder, few lines in a module, one name for each test module."""

import pytest

from tests.support.repository import REPOSITORY

SOURCE = REPOSITORY / "src/ddlbench"
MODULES = sorted(SOURCE.rglob("*.py"))
ROOMS = sorted({module.parent for module in MODULES})
MOST_MODULES = 18
MOST_LINES = 300


def name_of(path) -> str:
    return path.relative_to(SOURCE.parent).as_posix()


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_a_room_has_few_modules_and_says_what_it_is(room) -> None:
    modules = [path for path in room.glob("*.py") if path.stem not in ("__init__", "__main__")]
    assert len(modules) <= MOST_MODULES
    first, *_ = (room / "__init__.py").read_text().splitlines()
    assert first.startswith('"""')


def test_no_module_is_long() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_no_two_test_modules_have_the_same_name() -> None:
    """pytest imports test modules by their base names, and reads only one of two that share one."""
    names = [path.name for path in (REPOSITORY / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
